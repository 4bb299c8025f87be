# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever uses threads, when it is forked, interrupted, closed twice, or closed while another thread waits in it: a
typed error or nothing, and never a hang."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.gloo import lifecycle_cases as cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import Bridge, golden_switch, job_mapping


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with Ranks(2, Path(tmp_path_factory.mktemp("ranks"))) as started:
        yield started


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with Ranks(2, Path(tmp_path_factory.mktemp("alone")), backend="") as started:
        yield started


@pytest.mark.parametrize("situation", cases.SITUATIONS)
@pytest.mark.parametrize("kind", cases.GROUPED)
@pytest.mark.few(10)
def test_with_a_process_group(kind: str, situation: str, grouped: Ranks, tmp_path: Path) -> None:
    check(grouped, cases.grouped, kind, situation, tmp_path)


@pytest.mark.parametrize("situation", cases.SITUATIONS)
@pytest.mark.parametrize("kind", cases.ALONE)
def test_alone(kind: str, situation: str, alone: Ranks, tmp_path: Path) -> None:
    check(alone, cases.alone, kind, situation, tmp_path)


def check(ranks: Ranks, case: cases.Case, kind: str, situation: str, place: Path) -> None:
    mapping = job_mapping(2, 64)
    with Bridge(mapping, golden_switch(mapping)):
        told = ranks.run(case, kind, situation, mapping, place, timeout_s=3 * cases.LONG_S)[0]
    assert not [one for one in told if one == cases.HANGS or one.startswith("foreign")], told
    match situation:
        case "forked":
            used, closed, *later = told
            # An optimizer in the middle of a step says that first.
            assert {used, *later} <= {"ForkError", "UsageError"} and closed == "", told
        case "interrupted":
            waited, closed, later = told
            assert (waited, closed) == ("KeyboardInterrupt", "") and later, told
        case "closed_twice":
            again, later = told
            assert again == "" and later, told
        case "closed_while_another_waits":
            assert told[0] == "", told
