# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from sumwire.errors import DeadlineError, RefusedError, SumwireError, SwitchLostError
from sumwire.job.standing import STANDING_BYTES, Failure, Standing


def test_what_is_told_is_what_is_heard() -> None:
    failure = Failure("RefusedError", "no such job", {"reason": 8, "name": "JOB"})
    standing = Standing(3, 7, 8, 6, "thc of 5 values", lost="silent", stalled=True, left="Ctrl-C", failure=failure)
    content = standing.encode()
    assert Standing.decode(content) == standing
    assert Standing.decode(content.ljust(STANDING_BYTES)) == standing


def test_what_is_as_usual_is_not_told() -> None:
    assert json.loads(Standing(3, 7, 8, joined=True).encode()) == {
        "worker": 3, "completed": 7, "started": 8, "joined": True
    }  # fmt: skip


def test_texts_that_are_too_long_are_cut() -> None:
    long = "\u00fc" * STANDING_BYTES
    content = Standing(1, call=long, lost=long, left=long, failure=Failure("OrderError", long)).encode()
    assert len(content) <= STANDING_BYTES
    heard = Standing.decode(content)
    assert long.startswith(heard.lost)
    assert len(heard.lost) > 100


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("no such job", reason=8, name="JOB"),
        SwitchLostError("silent", job=7, slot=3),
        DeadlineError(job=7, slot=1, round_=2, chunk=3, open_chunks=4, waited_s=5.0, missing=[2]),
    ],
)
def test_an_error_is_the_same_on_every_rank(error: SumwireError) -> None:
    standing = Standing(0, failure=Failure.of(error))
    heard = Standing.decode(standing.encode()).failure
    assert heard is not None
    again = heard.error()
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
