# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of multi-hop all-reduce."""

from __future__ import annotations

from sumwire.errors import RecreateError, UsageError


class ScheduleError(UsageError, ValueError):
    """The schedule cannot serve this shape of ring or torus, or this tensor. The text names value and rule."""


class HopError(RecreateError):
    """A neighbour is gone, or has sent something else than the schedule has at this hop: the ranks are out of step."""
