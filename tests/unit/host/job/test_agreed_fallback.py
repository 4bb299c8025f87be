# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a rank makes of a newer run that it meets in its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import torch
from sumwire.errors import StaleRunError
from sumwire.job.agreed_fallback import AgreedFallback
from sumwire.job.control import Control
from sumwire.transport.stats import JobStats


@dataclass
class Ranks:
    """The job's control, as far as an operation asks it."""

    greeted: bool
    fell_back: list[str] = field(default_factory=list)

    def await_fallback(self, lost: str = "") -> None:
        self.fell_back.append(lost)


def overtaken() -> torch.Tensor:
    raise StaleRunError("another run has begun", slot=0, round_=32)


def carried(ranks: Ranks, **options: Any) -> torch.Tensor | None:
    fallback = AgreedFallback(cast(Control, ranks), JobStats(), **{"always": False, "never": False, **options})
    return fallback._through_switch(overtaken)


@pytest.mark.parametrize("always", [True, False])
def test_the_newer_run_is_a_greeting_of_its_own_or_what_others_have_left(always: bool) -> None:
    ranks = Ranks(greeted=True)
    assert carried(ranks, always=always) is None
    assert ranks.fell_back == ["another run has begun"]


@pytest.mark.parametrize(("greeted", "never"), [(False, False), (True, True)])
def test_who_never_greeted_and_who_shall_not_fall_back_ends(greeted: bool, never: bool) -> None:
    ranks = Ranks(greeted)
    with pytest.raises(StaleRunError):
        carried(ranks, never=never)
    assert ranks.fell_back == []
