# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What keeps the aggregator from starting, or ends it."""

from __future__ import annotations

from sumwire.errors import SumwireError, UsageError


class ListenError(UsageError):
    """The address cannot be listened at."""


class ProcessError(SumwireError):
    """One of the aggregator's processes ended by itself."""
