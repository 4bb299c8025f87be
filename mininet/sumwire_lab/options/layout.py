# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The named topologies, and a user's own from a YAML file: switches from the top down, hosts, rates of links. The file
is not trusted. The controller's reader bounds its size, depth, nodes and aliases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from commonlib.untrusted import shown
from sumwire_controller.errors import ConfigError
from sumwire_controller.parse.yaml_reader import YamlNode, load_tree, read_file

from sumwire_lab.errors import OptionError

SHAPES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "star": {"s1": ()},
    "leaf-spine": {"spine1": (), "leaf1": ("spine1",), "leaf2": ("spine1",)},
    "leaf-spine2": {"spine1": (), "spine2": (), "leaf1": ("spine1", "spine2"), "leaf2": ("spine1", "spine2")},
    "three-level": {
        "root": (),
        "middle1": ("root",),
        "middle2": ("root",),
        "leaf1": ("middle1",),
        "leaf2": ("middle1",),
        "leaf3": ("middle2",),
        "leaf4": ("middle2",),
    },
}
"""Switches of each topology from the top down. Each has the switches that it sends partial results to."""
TOPOLOGIES: Final = tuple(SHAPES)


def leaves_of(topology: str) -> list[str]:
    """Return the lowest switches. Only these have hosts."""
    uppers = {upper for ways in SHAPES[topology].values() for upper in ways}
    return [name for name in SHAPES[topology] if name not in uppers]


def rows_of(workers: int) -> int:
    """Return the rows of Marsit's torus: the largest divisor that is not above the columns. A prime number of workers
    gives a ring.

    Example: 8 workers make 2 rows of 4.
    """
    return max(rows for rows in range(1, workers + 1) if workers % rows == 0 and rows * rows <= workers)


# -- a topology from a file ----------------------------------------------------------------------------

HOSTS_MOST: Final = 32
SWITCHES_MOST: Final = 16
UPLINKS: Final = (0, 1, 2, 4)
"""So many switches may be above one."""
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,15}")
# Mininet's and the lab's own hosts.
_TAKEN: Final = re.compile(r"h\d+|server|c\d+")
_MBIT: Final = (0.1, 10_000.0)
SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True)
class SwitchEntry:
    """A switch, the switches above it, and the rate of the links to them; None: the run's rate between switches."""

    name: str
    above: tuple[str, ...] = ()
    mbit: float | None = None


@dataclass(frozen=True)
class HostEntry:
    """A host's switch, and the rate of its link; None: the run's."""

    switch: str
    mbit: float | None = None


@dataclass(frozen=True)
class NetworkLayout:
    """A network of switches and hosts. Raises OptionError if the lab cannot make it."""

    source: str
    switches: tuple[SwitchEntry, ...]
    hosts: tuple[HostEntry, ...]

    def __post_init__(self) -> None:
        self._check_switches()
        self._check_hosts()

    @property
    def shape(self) -> dict[str, tuple[str, ...]]:
        """Each switch from the top down, with the switches above it."""
        return {switch.name: switch.above for switch in self.switches}

    def leaves(self) -> list[str]:
        """Return the lowest switches."""
        uppers = {upper for switch in self.switches for upper in switch.above}
        return [switch.name for switch in self.switches if switch.name not in uppers]

    def as_dict(self) -> dict[str, Any]:
        """Return the layout as the content of a topology file, with one entry for each host."""

        def entry(**fields: Any) -> dict[str, Any]:
            return {name: value for name, value in fields.items() if value not in (None, [])}

        return {
            "switches": [entry(name=one.name, above=[*one.above], mbit=one.mbit) for one in self.switches],
            "hosts": [entry(switch=one.switch, mbit=one.mbit) for one in self.hosts],
        }

    def _check_switches(self) -> None:
        if not 1 <= len(self.switches) <= SWITCHES_MOST:
            self._refuse("switches", len(self.switches), f"a network has 1 to {SWITCHES_MOST}")
        before: set[str] = set()
        for switch in self.switches:
            where = f"switches: {switch.name}"
            if not _NAME.fullmatch(switch.name) or _TAKEN.fullmatch(switch.name):
                self._refuse("switches: name", switch.name, "small letters, digits and -, and no host's name as h1")
            if switch.name in before:
                self._refuse("switches: name", switch.name, "each name once")
            for upper in switch.above:
                if upper not in before:
                    self._refuse(f"{where}: above", upper, "a switch that the file names earlier, from the top down")
            if len(switch.above) not in UPLINKS or len(set(switch.above)) != len(switch.above):
                self._refuse(f"{where}: above", list(switch.above), "0, 1, 2 or 4 different switches")
            self._check_rate(f"{where}: mbit", switch.mbit)
            before.add(switch.name)
        tops = [switch.name for switch in self.switches if not switch.above]
        lower = [switch for switch in self.switches if switch.above]
        if len(tops) > 1 and not (lower and all({*switch.above} == {*tops} for switch in lower)):
            self._refuse("switches", tops, "one switch at the top, or several that every other switch is linked to")

    def _check_hosts(self) -> None:
        if not 1 <= len(self.hosts) <= HOSTS_MOST:
            self._refuse("hosts", len(self.hosts), f"a run has 1 to {HOSTS_MOST}")
        leaves = self.leaves()
        for host in self.hosts:
            if host.switch not in leaves:
                self._refuse("hosts: switch", host.switch, f"one of the lowest switches: {', '.join(leaves)}")
            self._check_rate("hosts: mbit", host.mbit)
        for leaf in leaves:
            if all(host.switch != leaf for host in self.hosts):
                self._refuse("hosts", leaf, "every lowest switch has a host")

    def _check_rate(self, where: str, mbit: float | None) -> None:
        if mbit is not None and not _MBIT[0] <= mbit <= _MBIT[1]:
            self._refuse(where, mbit, f"a link has {_MBIT[0]:g} to {_MBIT[1]:g} Mbit/s")

    def _refuse(self, where: str, value: object, rule: str) -> NoReturn:
        raise OptionError(f"{self.source}: {where}={shown(value)}: {rule}")


def load(path: Path) -> NetworkLayout:
    """Read a file. Raises OptionError.

    ```yaml
    switches: [{name: top}, {name: left, above: [top], mbit: 50}, {name: right, above: [top]}]
    hosts: [{switch: left, count: 3}, {switch: right, mbit: 10}]
    ```
    """
    try:
        return parse(read_file(path), str(path))
    except ConfigError as error:
        raise OptionError(str(error)) from error


def parse(text: str, source: str) -> NetworkLayout:
    """Read a file's text. Raises OptionError and the controller's ConfigError."""
    tree, problems = load_tree(text, source)
    if problems:
        raise ConfigError(source, problems)
    reader = _LayoutReader(source)
    top = reader.mapping(tree, "file", {"switches", "hosts"})
    switches = [reader.switch(node) for node in reader.items(top.get("switches"), "switches", SWITCHES_MOST)]
    hosts = [one for node in reader.items(top.get("hosts"), "hosts", HOSTS_MOST) for one in reader.hosts(node)]
    return NetworkLayout(source, tuple(switches), tuple(hosts))


class _LayoutReader:
    """Takes values out of a tree, and says where one is of another kind."""

    def __init__(self, source: str) -> None:
        self._source = source

    def mapping(self, node: YamlNode, where: str, keys: set[str]) -> Mapping[str, YamlNode]:
        if not isinstance(node.value, dict):
            self._refuse(node, where, f"must be a mapping with {', '.join(sorted(keys))}")
        for key in node.value:
            if key not in keys:
                self._refuse(node, f"{where}: {key}", f"known are {', '.join(sorted(keys))}")
        return node.value

    def items(self, node: YamlNode | None, where: str, most: int) -> list[YamlNode]:
        if node is None:
            raise OptionError(f"{self._source}: {where}: must be there")
        if not isinstance(node.value, list) or len(node.value) > most:
            self._refuse(node, where, f"must be a list of at most {most}")
        return node.value

    def switch(self, node: YamlNode) -> SwitchEntry:
        fields = self.mapping(node, "switches", {"name", "above", "mbit"})
        above = self.items(fields["above"], "switches: above", SWITCHES_MOST) if "above" in fields else []
        name = self._text(fields.get("name"), node, "switches: name")
        uppers = tuple(self._text(one, one, "switches: above") for one in above)
        return SwitchEntry(name, uppers, self._rate(fields.get("mbit"), "switches: mbit"))

    def hosts(self, node: YamlNode) -> list[HostEntry]:
        fields = self.mapping(node, "hosts", {"switch", "count", "mbit"})
        entry = HostEntry(
            self._text(fields.get("switch"), node, "hosts: switch"), self._rate(fields.get("mbit"), "hosts: mbit")
        )
        count = fields.get("count")
        if count is None:
            return [entry]
        if type(count.value) is not int or not 1 <= count.value <= HOSTS_MOST:
            self._refuse(count, "hosts: count", f"must be 1 to {HOSTS_MOST}")
        return [entry] * count.value

    def _text(self, node: YamlNode | None, parent: YamlNode, where: str) -> str:
        if node is None or not isinstance(node.value, str):
            self._refuse(node or parent, where, "must be a name")
        return node.value

    def _rate(self, node: YamlNode | None, where: str) -> float | None:
        if node is None:
            return None
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            self._refuse(node, where, "must be a rate in Mbit/s")
        return float(node.value)

    def _refuse(self, node: YamlNode, where: str, rule: str) -> NoReturn:
        value: Any = node.value if not isinstance(node.value, dict | list) else type(node.value).__name__
        raise OptionError(f"{self._source}:{node.line}: {where}={shown(value)}: {rule}")
