# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A fabric's numbers, and what it refuses."""

from __future__ import annotations

import argparse
import math
from typing import Any

import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.fields import add_flags, from_arguments


def test_without_levels_it_is_a_star() -> None:
    found = Fabric(workers=7)
    assert found.levels == (7,)
    assert (found.nodes(0), found.nodes(1), found.children(1), found.ways(0)) == (7, 1, 7, 1)


def test_workers_fill_one_leaf_after_another() -> None:
    found = Fabric(workers=1000, levels=(32, 32), spines=4, trunk_bit_s=4e9)
    assert [found.nodes(level) for level in range(3)] == [1000, 32, 1]
    assert [found.children(level) for level in (1, 2)] == [32, 32]
    assert [found.ways(level) for level in (0, 1)] == [1, 4]
    assert [found.rate(level) for level in (0, 1)] == [1e9, 4e9]
    assert Fabric(workers=40, levels=(32, 32)).children(2) == 2
    assert Fabric(workers=20, levels=(32, 32)).children(1) == 20


def test_three_levels_have_one_way_below_the_highest_links() -> None:
    found = Fabric(workers=64, levels=(4, 4, 4), spines=2)
    assert [found.ways(level) for level in (0, 1, 2)] == [1, 1, 2]
    assert [found.unit(level) for level in (0, 1, 2, 3)] == [1, 4, 16, 64]


def test_rates_of_trunks_and_servers_are_the_hosts_by_default() -> None:
    assert (Fabric(rate_bit_s=5e9).trunk, Fabric(rate_bit_s=5e9).server) == (5e9, 5e9)
    assert Fabric(rate_bit_s=5e9, server_bit_s=1e9).server == 1e9


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"workers": 0}, "workers=0: must be 1 to"),
        ({"workers": 33, "levels": (8, 4)}, "workers=33: must be at most 32, as levels=8,4; give --levels more"),
        ({"levels": (4, 0)}, "levels=4,0: must be at most 4 whole numbers of 1 or more"),
        ({"levels": (4,) * 5}, "levels=4,4,4,4,4: must be at most 4"),
        ({"rate_bit_s": 0.0}, "rate-bit-s=0.0: must be 1000 to 1e13 bit/s"),
        ({"rate_bit_s": math.nan}, "rate-bit-s=nan: must be"),
        ({"trunk_bit_s": -1.0}, "trunk-bit-s=-1.0: must be"),
        ({"server_bit_s": 1.0}, "server-bit-s=1.0: must be"),
        ({"delay_s": -1e-6}, "delay-s=-1e-06: must be 0 to 100"),
        ({"mtu": 1499}, "mtu=1499: must be 1500 to 9000"),
        ({"queue_bytes": 0}, "queue-bytes=0: must be 1 to 4e+09"),
        ({"loss": 1.0}, "loss=1.0: a share is"),
        ({"loss": math.nan}, "loss=nan: a share is"),
        ({"spines": 3, "workers": 4, "levels": (2, 2)}, "spines=3: must be one of 1, 2, 4"),
        ({"spines": 2}, "spines=2: must be 1 with a single level of switches; give --levels more"),
        ({"extra_bytes": -1}, "extra-bytes=-1: must be 0 to 100"),
    ],
)
def test_wrong_values_are_refused_with_value_rule_and_cure(given: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError) as refused:
        Fabric(**given)
    assert told in str(refused.value)


def test_it_comes_from_a_command_line() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, Fabric)
    words = ["--workers", "100", "--levels", "32,4", "--rate-bit-s", "1e10", "--spines", "2"]
    assert from_arguments(Fabric, parser.parse_args(words)) == Fabric(100, (32, 4), 1e10, spines=2)
