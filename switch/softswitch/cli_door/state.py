# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the commands need beside the switch: objects by unique ends of their names, and nodes of multicast groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from commonlib.untrusted import escaped

from softswitch.cli_door.values import CliCommandError, wrong
from softswitch.device import Device
from softswitch.p4runtime.pipeline import ForwardingPipeline
from softswitch.p4runtime.profiles import Handles
from softswitch.program import ir
from softswitch.runtime.entries import Replica

T = TypeVar("T")
_AMBIGUOUS: Final = None


class Named(Generic[T]):
    """Objects of one kind, found by name or by an end of it that no other has (``forward`` for ``ingress.forward``)."""

    def __init__(self, kind: str, objects: Mapping[str, T]) -> None:
        self._kind = kind
        self.objects = dict(sorted(objects.items()))
        self._by_end: dict[str, T | None] = {}
        for name, found in objects.items():
            parts = name.split(".")
            for first in range(1, len(parts)):
                end = ".".join(parts[first:])
                self._by_end[end] = _AMBIGUOUS if end in self._by_end else found

    def find(self, word: str) -> T:
        """Raises CliCommandError."""
        found = self.objects.get(word) or self._by_end.get(word)
        if found is None:
            raise wrong(f"Invalid {self._kind} name ({escaped(word)})")
        return found


class Names:
    """All objects of a program."""

    def __init__(self, program: ir.Program) -> None:
        tables = program.tables
        self.tables = Named("table", tables)
        self.actions = Named("action", {action.name: action for action in program.actions})
        self.profiles = Named("action profile", {t.profile: t for t in tables.values() if t.profile is not None})
        """By name: a table that has the profile."""
        self.registers = Named("register", program.registers)
        self.counters = Named("counter", program.counters)
        self.meters = Named("meter", program.meters)
        self._by_index = {action.index: action for action in program.actions}

    def actions_of(self, table: ir.Table) -> dict[str, ir.Action]:
        """The actions of a table, in order of their names."""
        actions = [self._by_index[index] for index in table.actions]
        return {action.name: action for action in sorted(actions, key=lambda action: action.name)}


@dataclass
class Node:
    """A multicast node: one instance number (rid), and the ports that get a replica of it."""

    rid: int
    ports: list[int]
    group: int | None = None

    @property
    def replicas(self) -> list[Replica]:
        return [Replica(port, self.rid) for port in self.ports]


@dataclass
class Nodes:
    """The nodes by handle, and the handles of each group's nodes."""

    nodes: dict[int, Node] = field(default_factory=dict)
    groups: dict[int, list[int]] = field(default_factory=dict)
    _free: Handles = field(default_factory=Handles)

    def create(self, rid: int, ports: list[int]) -> int:
        """Return the handle of a new node."""
        handle = self._free.take()
        self.nodes[handle] = Node(rid, ports)
        return handle

    def destroy(self, handle: int) -> None:
        del self.nodes[handle]
        self._free.give_back(handle)

    def node(self, handle: int) -> Node:
        """Raises CliCommandError."""
        node = self.nodes.get(handle)
        if node is None:
            raise CliCommandError("Invalid PRE operation (INVALID_L1_HANDLE)", f"there is no node {handle}")
        return node

    def replicas(self, handles: Iterable[int]) -> list[Replica]:
        return [replica for handle in handles for replica in self.nodes[handle].replicas]

    def follow(self, groups: Mapping[int, Sequence[Replica]]) -> None:
        """Take over groups that controllers have written, with one node for each instance number."""
        for group in [*self.groups]:
            replicas = groups.get(group)
            if replicas is None or set(replicas) != set(self.replicas(self.groups[group])):
                for handle in self.groups.pop(group):
                    self.destroy(handle)
        for group in groups.keys() - self.groups.keys():
            by_rid: dict[int, list[int]] = {}
            for replica in groups[group]:
                by_rid.setdefault(replica.instance, []).append(replica.port)
            self.groups[group] = [self.create(rid, sorted(ports)) for rid, ports in by_rid.items()]
            for handle in self.groups[group]:
                self.nodes[handle].group = group


class State:
    """All that is kept for one loading of a program."""

    def __init__(self, device: Device, pipeline: ForwardingPipeline) -> None:
        self.pipeline = pipeline
        self.names = Names(device.program)
        self.nodes = Nodes()
