# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a training put on its links, from counters of interfaces."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.lab import runs
from sumwire_lab.network.fabric import plan
from sumwire_lab.options.run_options import LinkOptions
from sumwire_lab.run.conditions import bytes_since, ends_of, of_steps, seconds_since, use_of
from sumwire_lab.system.counters import LinkBytes


def test_links_of_a_tree() -> None:
    fabric = plan(4, LinkOptions(mbit=100.0, trunk_mbit=50.0), "sw0000", "leaf-spine")
    told = [(one.lower, one.upper, one.mbit) for one in ends_of(fabric)]
    assert told[:4] == [("h1", "leaf1", 100.0), ("h2", "leaf1", 100.0), ("h3", "leaf2", 100.0), ("h4", "leaf2", 100.0)]
    assert told[4:] == [("leaf1", "spine1", 50.0), ("leaf2", "spine1", 50.0)]


def test_load_and_losses_of_both_directions() -> None:
    """A host's link is seen at the switch: what it receives there went up."""
    fabric = plan(2, LinkOptions(mbit=8.0), "sw0000", "leaf-spine")
    host, _, trunk, _ = ends_of(fabric)
    used = {
        host.upper_interface: LinkBytes(rx=500_000, tx=1_000_000),
        trunk.lower_interface: LinkBytes(rx=9, tx=250_000),
        trunk.upper_interface: LinkBytes(rx=8, tx=2_000_000),
    }
    drops = {host.lower_interface: 1, host.upper_interface: 20}
    random = {host.upper_interface: 300, host.lower_interface: 4000}
    one = use_of(host, used, drops, random, 2.0)
    assert (one.up_bytes, one.down_bytes, one.up_load, one.down_load) == (500_000, 1_000_000, 0.25, 0.5)
    assert (one.up_lost, one.down_lost) == (301, 4020)
    two = use_of(trunk, used, {}, {}, 2.0)
    assert (two.up_bytes, two.down_bytes, two.up_load, two.down_load) == (250_000, 2_000_000, 0.125, 1.0)
    assert use_of(host, used, {}, {}, 0.0).up_load is None


def test_seconds_of_the_steps_after_a_time() -> None:
    """Steps of 2 s begin at 100 s: at 103 s one is half done, and four are to come."""
    steps = runs.results()[1].workers[0].steps
    assert seconds_since(steps, 103.0) == pytest.approx(9.0)
    assert seconds_since([replace(one, at_s=None) for one in steps], 0.0) == 0.0


def test_bytes_of_the_steps_after_a_time() -> None:
    """Of six steps the first is over, of the second a half is left."""
    steps = runs.results()[1].workers[0].steps
    assert bytes_since(steps, 103.0) == LinkBytes(rx=round(4.5 * 250), tx=round(4.5 * 50))
    assert bytes_since(steps, 0.0) == LinkBytes(rx=6 * 250, tx=6 * 50)
    assert bytes_since(steps, 1000.0) == LinkBytes(0, 0)


def test_what_goes_on_between_steps_is_on_no_link() -> None:
    """Two of three bytes of the hosts' were the steps': so were two of three between the switches."""
    ends = ends_of(plan(2, LinkOptions(mbit=8.0), "sw0000", "leaf-spine"))
    one, two, trunk, _ = ends
    used = {end.upper_interface: LinkBytes(rx=600, tx=900) for end in ends}
    used |= {end.lower_interface: LinkBytes(rx=900, tx=600) for end in ends[2:]}
    found = of_steps(ends, used, [LinkBytes(rx=800, tx=400), LinkBytes(rx=500, tx=300)])
    assert (found[one.upper_interface], found[two.upper_interface]) == (LinkBytes(400, 800), LinkBytes(300, 500))
    assert (trunk.bytes_up(found), trunk.bytes_down(found)) == (400, 600)
    assert of_steps(ends, used, [LinkBytes(0, 0)] * 2)[one.upper_interface] == LinkBytes(0, 0)
    nothing = {name: LinkBytes(0, 0) for name in used}
    assert of_steps(ends, nothing, [LinkBytes(0, 0)] * 2) == nothing
