# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows that change when a root fails."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address
from typing import Any

import pytest
from helpers.controller.config_texts import text
from helpers.controller.topology_texts import leaf_spine, three_level, tree_job
from sumwire_controller.deploy.reconcile import EntryChange, Write
from sumwire_controller.deploy.watch import below_redundant_roots, redirections, redundant_roots, stranded
from sumwire_controller.derive.desired import uplinks
from sumwire_controller.derive.entries import Entry, TableEntry
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.model import Config
from sumwire_controller.parse.files import parse_topology


def root(k: int) -> IPv4Address:
    return IPv4Address(f"10.0.1.{k}")


def below(spines: int, **job: Any) -> Config:
    """The first of two leaves below `spines` spines."""
    data = leaf_spine(2, 2, spines)
    data["jobs"][0].update(job)
    return below_redundant_roots(configs_of(parse_topology(text(data))))[0]


def rows_of(config: Config) -> list[Entry]:
    return [row for job in config.jobs for row in uplinks(job)]


def spines(config: Config, changes: Iterable[EntryChange]) -> dict[tuple[int, int], int]:
    """(job, lowest bits of the slot) -> number of the spine, after the changes."""
    rows = {row.identity: row for row in rows_of(config)}
    for change in changes:
        assert change.write is Write.MODIFY
        assert change.entry.identity in rows
        rows[change.entry.identity] = change.entry
    found = {}
    for row in rows.values():
        assert isinstance(row, TableEntry)
        number = row.arg("address") & 0xFF
        assert (row.arg("port"), row.arg("mac")) == (100 + number, 0x025357000100 + number)
        found[row.key[0], row.key[1]] = number
    return found


@pytest.mark.parametrize(
    ("count", "dead", "expected"),
    [
        (2, {1}, [2, 2]),
        (2, {2}, [1, 1]),
        (4, {2}, [1, 1, 3, 4]),
        (4, {4}, [1, 2, 3, 1]),
        (4, {2, 4}, [1, 1, 3, 3]),
        (4, {1, 2}, [3, 4, 3, 4]),
        (4, {1, 2, 4}, [3, 3, 3, 3]),
        (4, set(), [1, 2, 3, 4]),
        (2, {1, 2}, [1, 2]),  # nobody is left
    ],
)
def test_slots_of_dead_spines_go_evenly_to_the_others(count: int, dead: set[int], expected: list[int]) -> None:
    config = below(count)
    changes = redirections(config, rows_of(config), {root(k) for k in dead})
    assert spines(config, changes) == {(1, low_bits): k for low_bits, k in enumerate(expected)}
    moved = sum(k != low_bits + 1 for low_bits, k in enumerate(expected))
    assert len(changes) == moved


def test_all_leaves_choose_the_same_spines() -> None:
    data = leaf_spine(3, 1, 4)
    leaves = below_redundant_roots(configs_of(parse_topology(text(data))))
    assert [leaf.switch.name for leaf in leaves] == ["leaf1", "leaf2", "leaf3"]
    found = [spines(leaf, redirections(leaf, rows_of(leaf), {root(3), root(1)})) for leaf in leaves]
    assert found[0] == found[1] == found[2]


def test_every_lane_moves() -> None:
    config = below(2, lanes=4, id=5)
    found = spines(config, redirections(config, rows_of(config), {root(2)}))
    assert found == {(number, low_bits): 1 for number in (5, 6, 7, 8) for low_bits in (0, 1)}


def test_what_is_there_already_is_not_written_again() -> None:
    config = below(2)
    once = redirections(config, rows_of(config), {root(2)})
    held = [once[0].entry if row.identity == once[0].entry.identity else row for row in rows_of(config)]
    assert redirections(config, held, {root(2)}) == []


def test_a_root_that_came_back_is_used_only_where_no_other_is_left() -> None:
    four, two = below(4), below(2)
    assert spines(four, redirections(four, rows_of(four), {root(1)}, {root(2)})) == {
        (1, 0): 3, (1, 1): 4, (1, 2): 3, (1, 3): 4
    }  # fmt: skip
    without_2 = [change.entry for change in redirections(two, rows_of(two), {root(2)})]
    held = [row for row in rows_of(two) if row.identity != without_2[0].identity] + without_2
    changes = redirections(two, held, {root(1)}, {root(2)})
    assert len(changes) == 2
    assert spines(two, changes) == {(1, 0): 2, (1, 1): 2}


def test_a_row_that_the_switch_does_not_have_is_left_alone() -> None:
    config = below(2)
    assert redirections(config, rows_of(config)[:1], {root(2)}) == []


def test_stranded() -> None:
    config = below(2, lanes=2, id=3)
    assert stranded(config, {root(2)}) == []
    assert stranded(config, {root(1), root(2)}) == ["digits/0", "digits/1"]


def test_only_jobs_with_several_roots_count() -> None:
    configs = configs_of(parse_topology(text(leaf_spine(2, 2, 2))))
    assert redundant_roots(configs) == {root(1): "spine1", root(2): "spine2"}
    for data in (leaf_spine(2, 2, 1), three_level()):
        configs = configs_of(parse_topology(text(data)))
        assert (redundant_roots(configs), below_redundant_roots(configs)) == ({}, ())
    data = {**leaf_spine(2, 2, 2), "jobs": [tree_job("local", 1, [1, 2], 0, 8)]}
    assert redundant_roots(configs_of(parse_topology(text(data)))) == {}
