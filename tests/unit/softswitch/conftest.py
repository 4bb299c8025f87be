# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The compiled test programs on both engines."""

from __future__ import annotations

from helpers.softswitch.fixtures import engine, program_text, switch_for

__all__ = ["engine", "program_text", "switch_for"]
