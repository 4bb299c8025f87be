# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of starting and running the aggregator."""

from __future__ import annotations

from sumwire.errors import SumwireError, UsageError


class ListenError(UsageError):
    """The aggregator cannot listen at its address."""


class ProcessError(SumwireError):
    """One of the aggregator's processes ended without being told to."""
