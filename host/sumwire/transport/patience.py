# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How long an exchange waits for other workers, and what it does when the switch does not answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from sumwire.errors import SwitchLostError


class DeadlinePassedError(Exception):
    """The time of :class:`Alone` is over: the exchange asks who is missing, and ends with DeadlineError."""


class Patience(Protocol):
    """Decides about an exchange that waits without a new result. What a method raises ends the exchange."""

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Called twelve times in the transport's ``silence_s``, by default every 0.25 s.

        ``waited_s``: seconds without a new result. ``missing``: numbers of the workers that the oldest chunk's slot
        waits for, as far as this worker's switch knows; None if unknown.
        """

    def switch_lost(self, error: SwitchLostError) -> None:
        """The switch does not answer. Returns if the exchange is to wait on."""


class Alone:
    """The patience of a worker that knows of the others only what the switch tells.

    After ``deadline_s`` seconds without a new result the exchange ends with DeadlineError, and at once with
    SwitchLostError if the switch does not answer.
    """

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Raises DeadlinePassedError after ``deadline_s``."""
        if waited_s >= self.deadline_s:
            raise DeadlinePassedError

    def switch_lost(self, error: SwitchLostError) -> None:
        """Raises the error."""
        raise error
