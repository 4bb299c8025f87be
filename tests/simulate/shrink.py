# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a schedule that violates something smaller, as long as it violates the same."""

from __future__ import annotations

import re
from typing import Final

from simulate.play import Outcome, play
from simulate.schedule import Schedule, smaller

_TRIES_MOST: Final = 200


def shrunk(schedule: Schedule) -> tuple[Schedule, Outcome]:
    """The smallest schedule that was found, and how it ends."""
    outcome = play(schedule)
    wanted, tries = _kind(outcome), 0
    again = True
    while again and tries < _TRIES_MOST:
        again = False
        for candidate in smaller(schedule):
            tries += 1
            found = play(candidate)
            if found.violations and _kind(found) == wanted:
                schedule, outcome, again = candidate, found, True
                break
            if tries >= _TRIES_MOST:
                break
    return schedule, outcome


def _kind(outcome: Outcome) -> str:
    """What is violated, without the numbers."""
    return re.sub(r"[\d.]+", "", outcome.violations[0].split("\n")[0])[:60] if outcome.violations else ""
