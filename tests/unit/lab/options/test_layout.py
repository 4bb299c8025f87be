# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Topologies from YAML files: what they make, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.network.fabric import plan
from sumwire_lab.options import arguments, run_options
from sumwire_lab.options.layout import NetworkLayout, load
from sumwire_lab.options.run_options import LinkOptions, RunOptions

TREE = """
switches:
  - {name: top}
  - {name: left, above: [top], mbit: 50}
  - {name: right, above: [top]}
hosts:
  - {switch: left, count: 2}
  - {switch: right, mbit: 10}
"""


def loaded(folder: Path, text: str) -> NetworkLayout:
    path = folder / "net.yaml"
    path.write_text(text)
    return load(path)


def test_a_tree_with_rates(tmp_path: Path) -> None:
    layout = loaded(tmp_path, TREE)
    fabric = plan(3, LinkOptions(mbit=100.0, trunk_mbit=40.0), "sw0000", layout=layout)
    assert [(host.name, host.switch, fabric.link_of(host).mbit) for host in fabric.hosts] == [
        ("h1", "left", 100.0), ("h2", "left", 100.0), ("h3", "right", 10.0),
    ]  # fmt: skip
    assert [(t.lower, t.upper, fabric.trunk_link(t).mbit) for t in fabric.trunks] == [
        ("left", "top", 50.0), ("right", "top", 40.0),
    ]  # fmt: skip
    assert fabric.slowest_mbit() == 10.0
    assert [switch.name for switch in fabric.switches] == ["top", "left", "right"]
    assert (fabric.ports_of("left"), fabric.stands_for("top")) == ((1, 2, 3), 3)


def test_the_command_line_takes_a_file(tmp_path: Path) -> None:
    loaded(tmp_path, TREE)
    words = ["run", "--topology", str(tmp_path / "net.yaml")]
    options = run_options.run_options(arguments.parser().parse_args(words))
    assert (options.workers, options.topology) == (3, "net.yaml")
    with pytest.raises(OptionError, match=r"workers=4: net\.yaml has 3 hosts"):
        run_options.run_options(arguments.parser().parse_args([*words, "--workers", "4"]))
    with pytest.raises(OptionError, match="cannot be read"):
        run_options.run_options(arguments.parser().parse_args(["run", "--topology", "nowhere.yaml"]))
    assert run_options.run_options(arguments.parser().parse_args(["run"])) == RunOptions()


HOSTS = "hosts: [{switch: a}]"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("[]", "must be a mapping with hosts, switches"),
        (HOSTS, "switches: must be there"),
        ("switches: [{name: a}]\nhosts: []", "a run has 1 to 32"),
        ("switches: []\nhosts: []", "a network has 1 to 16"),
        ("switches: [{name: a}, {name: a}]\n" + HOSTS, "each name once"),
        ("switches: [{name: a, ports: 3}]\n" + HOSTS, "ports.*known are above, mbit, name"),
        ("switches: [{name: h3}]\n" + HOSTS, "no host's name"),
        ("switches: [{name: ../x}]\n" + HOSTS, "small letters"),
        ("switches: [{name: a, above: [b]}, {name: b}]\n" + HOSTS, "names earlier"),
        ("switches: [{name: a, above: [a]}]\n" + HOSTS, "names earlier"),
        ("switches: [{name: a}, {name: b, above: [a, a]}]\nhosts: [{switch: b}]", "different switches"),
        ("switches: [{name: a}, {name: b}]\nhosts: [{switch: a}, {switch: b}]", "one switch at the top"),
        ("switches: [{name: a}, {name: b, above: [a]}]\n" + HOSTS, "one of the lowest switches: b"),
        ("switches: [{name: a}, {name: b, above: [a]}, {name: c, above: [a]}]\nhosts: [{switch: b}]", "has a host"),
        ("switches: [{name: a, mbit: 0}]\n" + HOSTS, "0.1 to 10000 Mbit/s"),
        ("switches: [{name: a}]\nhosts: [{switch: a, mbit: fast}]", "a rate in Mbit/s"),
        ("switches: [{name: a}]\nhosts: [{switch: a, mbit: .nan}]", "0.1 to 10000 Mbit/s"),
        ("switches: [{name: a}]\nhosts: [{switch: a, count: 33}]", "must be 1 to 32"),
        ("switches: [{name: a}]\nhosts: [{switch: a, count: 20}, {switch: a, count: 20}]", "a run has 1 to 32"),
        ("switches: [{name: [a]}]\n" + HOSTS, "must be a name"),
        ("switches: [{name: a}]\nswitches: [{name: a}]\n" + HOSTS, "net.yaml"),
        ("switches: !!python/object/apply:os.system [id]\n" + HOSTS, "net.yaml"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nswitches: " + "[" * 40 + "]" * 40, "net.yaml"),
        ("x" * 300_000, "262144"),
    ],
)
def test_what_the_lab_cannot_make_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    with pytest.raises(OptionError, match=rule):
        loaded(tmp_path, text)


def test_aliases_may_not_multiply(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 9))
    with pytest.raises(OptionError, match="aliases"):
        loaded(tmp_path, bomb)


def test_two_spines_over_all_leaves(tmp_path: Path) -> None:
    text = "switches: [{name: s1}, {name: s2}, {name: a, above: [s1, s2]}, {name: b, above: [s1, s2]}]\n"
    layout = loaded(tmp_path, text + "hosts: [{switch: a}, {switch: b}]")
    assert [trunk.spare for trunk in plan(2, LinkOptions(), "sw0000", layout=layout).trunks] == [False, True] * 2
