# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One torch thread for all tests of the host library."""

from __future__ import annotations

from helpers.torch_threads import one_torch_thread

__all__ = ["one_torch_thread"]
