# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a run can be made to bear: options, and who gets what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.network.fabric import plan
from sumwire_lab.network.shaping import RandomLoss
from sumwire_lab.options.arguments import parser
from sumwire_lab.options.conditions import BACKGROUND_FLOWS, Conditions, OfHost
from sumwire_lab.options.run_options import LinkOptions, RunOptions, run_options
from sumwire_lab.run.conditions import traffic_specs

WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: Conditions(loss=1.0), "loss=1.0"),
    (lambda: Conditions(loss=-0.1), "loss=-0.1"),
    (lambda: Conditions(gray=OfHost(1, 0)), "gray=1:0"),
    (lambda: Conditions(background=4.5), "background=4.5"),
    (lambda: Conditions(incast_kb=-1), "incast=-1"),
    (lambda: Conditions(slow=OfHost(2, 0.5)), "slow=2:0.5"),
    (lambda: OfHost.parse("gray", "0.01"), "gray=0.01"),
    (lambda: OfHost.parse("slow", "h2:fast"), "slow=h2:fast"),
    (lambda: RunOptions(conditions=Conditions(gray=OfHost(5, 0.01))), "gray=5:0.01"),
    (lambda: RunOptions(conditions=Conditions(slow=OfHost(0, 3))), "slow=0:3"),
    (lambda: RunOptions(conditions=Conditions(background=1.5)), "more only with a server"),
    (lambda: RunOptions(workers=1, conditions=Conditions(background=0.5)), "background=0.5"),
    (lambda: RunOptions(workers=1, conditions=Conditions(incast_kb=9)), "incast=9"),
    (lambda: LinkOptions(trunk_mbit=0), "trunk-bw=0"),
]


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_wrong_conditions_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make()


def test_the_command_line_makes_them() -> None:
    text = "run --loss 0.01 --gray 2:0.001 --background 0.5 --incast 64 --slow h3:3 --trunk-bw 50"
    options = run_options(parser().parse_args(text.split()))
    assert options.conditions == Conditions(0.01, OfHost(2, 0.001), 0.5, 64, OfHost(3, 3.0))
    assert options.link == LinkOptions(trunk_mbit=50.0)
    assert options.needs_barrier


def test_without_options_there_is_nothing_to_bear() -> None:
    options = run_options(parser().parse_args(["run"]))
    assert options == RunOptions()
    assert not options.conditions.any
    assert not options.needs_barrier
    assert options.conditions.words() == ""


def test_a_gray_link_loses_more_than_the_others() -> None:
    conditions = Conditions(loss=0.01, gray=OfHost(2, 0.1))
    assert conditions.share_lost(1) == conditions.share_lost(None) == pytest.approx(0.01)
    assert conditions.share_lost(2) == pytest.approx(1 - 0.99 * 0.9)


def test_only_the_slow_worker_is_slow() -> None:
    conditions = Conditions(slow=OfHost(3, 4.0))
    assert [conditions.slowness(rank) for rank in range(4)] == [1.0, 1.0, 4.0, 1.0]


def test_flows_go_round_and_bursts_to_the_first(tmp_path: Path) -> None:
    fabric = plan(3, LinkOptions(100), "sw12af")
    specs = traffic_specs(fabric, Conditions(background=0.5, incast_kb=20), tmp_path / "m")
    assert [(s.address, s.peer) for s in specs] == [
        ("10.0.0.1", "10.0.0.2"),
        ("10.0.0.2", "10.0.0.3"),
        ("10.0.0.3", "10.0.0.1"),
    ]
    # Half of 100 Mbit/s in bytes, over all flows of a host.
    assert {s.flow_bytes_per_s * BACKGROUND_FLOWS for s in specs} == {6_250_000}
    assert [s.victim for s in specs] == [None, "10.0.0.1", "10.0.0.1"]
    assert {s.burst_bytes for s in specs} == {20_000}


def test_flows_go_to_the_server_behind_the_switch(tmp_path: Path) -> None:
    fabric = plan(3, LinkOptions(100), "sw12af", server=True, server_behind=True)
    specs = traffic_specs(fabric, Conditions(background=1.5), tmp_path / "m")
    assert fabric.server is not None
    assert [s.peer for s in specs] == [fabric.server.ip] * 3 + [None]
    # One and a half times 100 Mbit/s in bytes, over all flows of all hosts.
    assert {s.flow_bytes_per_s * BACKGROUND_FLOWS * 3 for s in specs} == {18_750_000}


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(LabError, match=f"share={share}"):
        RandomLoss("lo", share)
