# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which hosts keep their segmentation offloads."""

from __future__ import annotations

import pytest
from sumwire_lab.network.shaping import kept, off_command
from sumwire_lab.options.conditions import Conditions, OfHost
from sumwire_lab.options.run_options import LinkOptions, RunOptions


@pytest.mark.parametrize(("kind", "on"), [(None, True), ("aggregator", True), ("bmv2", False)])
def test_hosts_keep_what_their_switch_can_bear(kind: str | None, on: bool) -> None:
    assert kept(kind, RunOptions()) is on


@pytest.mark.parametrize(("engine", "on"), [("native", True), ("python", False)])
def test_only_the_native_engine_takes_trains(engine: str, on: bool) -> None:
    assert kept("soft", RunOptions(engine=engine)) is on


def test_no_whole_train_is_lost_in_a_queue_by_priority() -> None:
    assert not kept(None, RunOptions(link=LinkOptions(priorities=True)))


@pytest.mark.parametrize("conditions", [Conditions(loss=0.01), Conditions(gray=OfHost(2, 0.01))])
def test_no_whole_train_is_lost_at_random(conditions: Conditions) -> None:
    assert not kept(None, RunOptions(conditions=conditions))


def test_the_command_turns_all_of_them_off() -> None:
    words = off_command("sw12af-h1")
    off = {words[k] for k in range(3, len(words), 2)}
    assert {"tx", "tso", "gso", "gro"} <= off
    assert {words[k] for k in range(4, len(words), 2)} == {"off"}
