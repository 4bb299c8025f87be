# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between the hops."""

from __future__ import annotations

from sumwire.errors import RecreateError, UsageError


class ScheduleError(UsageError, ValueError):
    """A shape of ring or torus, or a tensor, that the schedule cannot serve; the text names value and rule."""


class HopError(RecreateError):
    """A neighbour is gone, or sent what the schedule does not have at this hop: the ranks are out of step."""
