# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The P4 program in the native engine, with the entries that the controller's own code writes, without gRPC."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from p4.v1 import p4runtime_pb2
from softswitch.p4runtime import pipeline, write
from softswitch.p4runtime.pipeline import ForwardingPipeline
from softswitch.p4runtime.read import EntityReader
from softswitch.switch import SoftSwitch
from sumwire_controller.deploy.operations import bring_all_about
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import EntryChange
from sumwire_controller.deploy.switch import Loaded
from sumwire_controller.derive import entries as derived
from sumwire_controller.model import Config

Frames = list[tuple[int, bytes]]
Writes = list[tuple[str, tuple[Any, ...]]]
# The device's calls that entries come by.
_WRITES = ("insert", "modify", "delete", "set_default_action", "set_group", "delete_group")


@functools.cache
def program() -> Program:
    return Program.load(None)


@functools.cache
def _pipeline() -> ForwardingPipeline:
    config = p4runtime_pb2.ForwardingPipelineConfig()
    config.p4info.CopyFrom(program().p4info)
    config.p4_device_config = program().device_config
    config.cookie.cookie = program().cookie
    return pipeline.parse_pipeline(config)[0]


class Switch:
    """One switch and the controller's session with it. It is loaded once, and :meth:`clear` makes it as new: what a
    program needs to be compiled and loaded is the same each time.

    A :class:`sumwire_controller.deploy.switch.SwitchControl`.
    """

    def __init__(self) -> None:
        self.now_us: Callable[[], int] = lambda: 0
        text = program().device_config.decode()
        self.device = SoftSwitch(text, seed=1, engine="native", clock=self._clock)
        self._pipeline = self._new_pipeline()
        self._writes: Writes | None = None
        # The tables that have been written since the switch was new.
        self._written: set[str] = set()

    def _clock(self) -> int:
        return self.now_us()

    def _new_pipeline(self) -> ForwardingPipeline:
        return ForwardingPipeline(_pipeline().info, _pipeline().config, self.device.loads)

    def clear(self, seed: int) -> None:
        """Without entries, all cells 0."""
        machine = self.device.loaded
        cells: list[Any] = [*machine.registers.values(), *machine.counters.values()]
        for each in cells:
            memory = each._memory.cast("B")
            ctypes.memset(ctypes.addressof(ctypes.c_uint8.from_buffer(memory)), 0, memory.nbytes)
        for name in self._written:
            machine.tables[name].reset()
        self._written = set()
        for group in list(self.device.groups()):
            self.device.delete_group(group)
        self.device._random._state.value = seed
        self._pipeline = self._new_pipeline()

    def process(self, port: int, frame: bytes) -> Frames:
        return self.device.process(port, frame)

    # -- what the controller calls -----------------------------------------------------------------------

    def loaded(self, wanted: Program) -> Loaded | None:
        return Loaded(wanted is program(), "sumwire")

    def push(self, wanted: Program) -> None:
        raise AssertionError("the program runs")

    def packets_of_jobs(self) -> dict[int, int]:
        return {}

    def entries(self, wanted: Program) -> frozenset[derived.Entry]:
        groups = p4runtime_pb2.Entity()
        groups.packet_replication_engine_entry.multicast_group_entry.multicast_group_id = 0
        found = self._read(wanted, groups, ("", frozenset(self.device.groups().items())))
        for table_id in wanted.owned_tables():
            name = self._pipeline.info.table(table_id).name
            rows = tuple((row.key, row.action, row.priority) for row in self.device.entries(name))
            request = p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=table_id)) if rows else None
            found |= self._read(wanted, request, (name, rows))
        return found

    def _read(self, wanted: Program, request: Any | None, content: Content) -> frozenset[derived.Entry]:
        """What P4Runtime answers where the switch has this content, from the first time that any switch had it."""
        if request is None:
            return frozenset()
        if content not in _READ:
            reading, found = EntityReader(self.device, self._pipeline, [request]), []
            while (piece := reading.piece()) is not None:
                found += [wanted.from_entity(entity) for entity in piece.entities]
            _READ[content] = frozenset(entry for entry in found if entry is not None)
        return _READ[content]

    def write(self, wanted: Program, change: EntryChange) -> None:
        """As P4Runtime's code writes this change the first time."""
        known = _CHANGES.get((change.write.name, change.entry))
        if known is not None:
            for name, arguments in known:
                self._record(name, arguments)
            self.repeat(known)
            return
        update = p4runtime_pb2.Update(type=p4runtime_pb2.Update.Type.Value(change.write.name))
        update.entity.CopyFrom(wanted.to_entity(change.entry))
        made: Writes = []
        write.apply(_Recorder(self.device, lambda *call: made.append(call)), self._pipeline, [update])
        _CHANGES[change.write.name, change.entry] = made
        for name, arguments in made:
            self._record(name, arguments)

    # -- entries once more -------------------------------------------------------------------------------

    def start_recording(self) -> None:
        """Keep the calls to the device that writes come to."""
        self._writes = []

    def recorded(self) -> Writes:
        """Those calls."""
        writes, self._writes = self._writes, None
        return writes or []

    def _record(self, name: str, arguments: tuple[Any, ...]) -> None:
        self._note_table(name, arguments)
        if self._writes is not None:
            self._writes.append((name, arguments))

    def repeat(self, writes: Writes) -> None:
        with self.device.batch():
            for name, arguments in writes:
                self._note_table(name, arguments)
                getattr(self.device, name)(*arguments)

    def _note_table(self, name: str, arguments: tuple[Any, ...]) -> None:
        if "group" not in name:
            self._written.add(arguments[0])

    def forget(self) -> None:
        """The program's own entries are others from now on."""
        self._written = set(self.device.loaded.tables)


class _Recorder:
    """A device that tells what is written to it."""

    def __init__(self, device: SoftSwitch, record: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._device, self._record = device, record

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._device, name)
        if name not in _WRITES:
            return call

        def recording(*arguments: Any) -> Any:
            self._record(name, arguments)
            return call(*arguments)

        return recording


_POOL: list[Switch] = []
# What has happened to entries since all switches were new: what the controller was told to do, and "new NAME".
History = tuple[str, ...]
# What the controller writes, by configuration and history: reading and writing entries takes long.
_WRITTEN: dict[tuple[tuple[Config, ...], History], list[Writes]] = {}
# What the controller reads, by table and rows, and the calls to the device that each change comes to.
Content = tuple[str, Any]
_READ: dict[Content, frozenset[derived.Entry]] = {}
_CHANGES: dict[tuple[str, derived.Entry], Writes] = {}
_FIRST_TIME: Final = 1_700_000_000


def cleared(count: int, seed: int, now_us: Callable[[], int]) -> list[Switch]:
    """So many empty switches."""
    while len(_POOL) < count:
        _POOL.append(Switch())
    for number, switch in enumerate(_POOL[:count]):
        switch.clear(seed + number)
        switch.now_us = now_us
    return _POOL[:count]


def install(configs: Sequence[Config], switches: Sequence[Switch], renew: Sequence[str], history: History) -> bool:
    """The controller's apply, the last of a history. It writes what it wrote the last time in the same one.

    Returns whether it has written anything: entries that are right stay, with the job's generation.
    """
    key = tuple(configs), history
    if key in _WRITTEN:
        for switch, writes in zip(switches, _WRITTEN[key], strict=True):
            switch.repeat(writes)
        return any(_WRITTEN[key])
    for switch in switches:
        switch.start_recording()
    pairs = list(zip(configs, switches, strict=True))
    bring_all_about(pairs, program(), renew, _FIRST_TIME + len(history), force=True)
    _WRITTEN[key] = [switch.recorded() for switch in switches]
    return any(_WRITTEN[key])


def forget() -> None:
    """The controller, or the program, is another one from now on."""
    for known in (_WRITTEN, _READ, _CHANGES):
        known.clear()
    for switch in _POOL:
        switch.forget()
