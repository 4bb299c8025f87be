# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Writes entries to a switch and reads them back. P4Runtime's messages are used in this folder only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

from sumwire_controller.deploy.channel import why_closed
from sumwire_controller.deploy.p4info import Program, name_of, worker_counter_ids
from sumwire_controller.deploy.reconcile import EntryChange, Write
from sumwire_controller.deploy.session import SwitchSession, is_silent, rpc_error
from sumwire_controller.derive.entries import WORKER, Entry
from sumwire_controller.errors import SwitchError
from sumwire_controller.model import Switch

DEFAULT_TIMEOUT_S: Final = 10.0
# A switch may compile the program, on a machine that has much else to do.
LOADING_TIMEOUT_S: Final = 180.0
"""For loading a program, which the switch may have to compile."""
_UPDATE_TYPES: Final = {
    Write.INSERT: p4runtime_pb2.Update.INSERT,
    Write.MODIFY: p4runtime_pb2.Update.MODIFY,
    Write.DELETE: p4runtime_pb2.Update.DELETE,
}
_PackedCounter = tuple[int, int]
"""(packets, bytes)"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The program that a switch runs: whether it is the wanted one, and its name and version."""

    wanted: bool
    name: str


class SwitchControl(Protocol):
    """The interface to a switch that `apply` needs. Tests implement it without a network."""

    def loaded(self, program: Program) -> Loaded | None: ...

    def push(self, program: Program) -> None: ...

    def packets_of_jobs(self) -> dict[int, int]: ...

    def entries(self, program: Program) -> frozenset[Entry]: ...

    def write(self, program: Program, change: EntryChange) -> None: ...


class P4Switch:
    """A P4Runtime session with one switch, as a context manager.

    Every call has the deadline `timeout_s`; loading a program has at least LOADING_TIMEOUT_S. Unless `read_only`, the
    session is the switch's primary controller; `take_over` makes it so even if another controller is.

    :raises SwitchUnreachableError, NotPrimaryError, SwitchRefusedError: from the constructor and from every method.
    """

    def __init__(
        self,
        switch: Switch,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        *,
        read_only: bool = False,
        take_over: bool = False,
    ) -> None:
        self._switch = switch
        self._timeout_s = timeout_s
        self._session = SwitchSession(switch, timeout_s, read_only=read_only, take_over=take_over)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._session.tear_down()

    def _call(self, what: str, call: Callable[..., Any], request: Any, timeout_s: float | None = None) -> Any:
        try:
            return call(request, timeout=timeout_s or self._timeout_s)
        except grpc.RpcError as error:
            raise self._error(what, error) from error

    def _error(self, what: str, error: Any) -> SwitchError:
        closed = why_closed(self._switch, what, self._timeout_s) if is_silent(error) else None
        return closed or rpc_error(self._switch, what, error, _update_reason(error))

    def loaded(self, program: Program) -> Loaded | None:
        """Return the program that the switch runs; None if it runs none.

        Two programs are equal if their P4Infos and their cookies are equal; the cookie is a hash of the JSON.
        """
        config = self._pipeline()
        if config is None:
            return None
        wanted = config.cookie.cookie == program.cookie and config.p4info == program.p4info
        return Loaded(bool(wanted), name_of(config.p4info))

    def _pipeline(self) -> Any:
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(device_id=self._switch.device_id)
        request.response_type = p4runtime_pb2.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE
        try:
            reply = self._session.stub.GetForwardingPipelineConfig(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:  # no program yet
                return None
            raise self._error("reading the running program", error) from error
        return reply.config if reply.config.HasField("p4info") else None

    def push(self, program: Program) -> None:
        """Load the program. The switch then has no entries."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=self._switch.device_id)
        request.action = p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        request.election_id.high, request.election_id.low = self._session.election_id
        request.config.p4info.CopyFrom(program.p4info)
        request.config.p4_device_config = program.device_config
        request.config.cookie.cookie = program.cookie
        patience_s = max(self._timeout_s, LOADING_TIMEOUT_S)
        self._call("loading the program", self._session.stub.SetForwardingPipelineConfig, request, patience_s)

    def write(self, program: Program, change: EntryChange) -> None:
        """Write one change. A request has only one update, so that a refusal can be attributed to it."""
        request = p4runtime_pb2.WriteRequest(device_id=self._switch.device_id)
        request.election_id.high, request.election_id.low = self._session.election_id
        request.updates.add(type=_UPDATE_TYPES[change.write]).entity.CopyFrom(program.to_entity(change.entry))
        self._call(str(change), self._session.stub.Write, request)

    def entries(self, program: Program) -> frozenset[Entry]:
        """Read every row of the controller's tables, and every multicast group."""
        request = p4runtime_pb2.ReadRequest(device_id=self._switch.device_id)
        for table_id in program.owned_tables():
            request.entities.add().table_entry.table_id = table_id
        request.entities.add().packet_replication_engine_entry.multicast_group_entry.multicast_group_id = 0
        found = (program.from_entity(entity) for entity in self._read("reading the tables", request))
        return frozenset(entry for entry in found if entry is not None)

    def rows(self, program: Program, table: str) -> list[Entry]:
        """Read every row of one of the controller's tables."""
        request = p4runtime_pb2.ReadRequest(device_id=self._switch.device_id)
        request.entities.add().table_entry.table_id = program.table_id(table)
        found = (program.from_entity(entity) for entity in self._read(f"reading table {table}", request))
        return [entry for entry in found if entry is not None]

    def counter(self, counter_id: int, indices: Iterable[int] | None = None) -> dict[int, _PackedCounter]:
        """Return (packets, bytes) of some cells of an indirect counter by index, or of all if `indices` is None."""
        request = p4runtime_pb2.ReadRequest(device_id=self._switch.device_id)
        for index in (None,) if indices is None else indices:
            cell = request.entities.add().counter_entry
            cell.counter_id = counter_id
            if index is not None:
                cell.index.index = index
        if not request.entities:
            return {}
        cells = (entity.counter_entry for entity in self._read("reading a counter", request))
        return {int(cell.index.index): (int(cell.data.packet_count), int(cell.data.byte_count)) for cell in cells}

    def worker_counters(self, program: Program) -> dict[tuple[int, ...], _PackedCounter]:
        """Return (packets, bytes) of every row of the worker table by its key (job, worker)."""
        request = p4runtime_pb2.ReadRequest(device_id=self._switch.device_id)
        request.entities.add().direct_counter_entry.table_entry.table_id = program.table_id(WORKER.name)
        cells = [entity.direct_counter_entry for entity in self._read("reading the workers' counters", request)]
        keyed = [(cell.table_entry, cell.data) for cell in cells if not cell.table_entry.is_default_action]
        return {program.key_of(row): (int(data.packet_count), int(data.byte_count)) for row, data in keyed}

    def packets_of_jobs(self) -> dict[int, int]:
        """Return the packets that a job's workers have sent since their rows were inserted, by job id.

        The switch may run another build of Sumwire. For any other program the result is empty.
        """
        config = self._pipeline()
        ids = None if config is None else worker_counter_ids(config.p4info)
        if ids is None:
            return {}
        table_id, job_field = ids
        request = p4runtime_pb2.ReadRequest(device_id=self._switch.device_id)
        request.entities.add().direct_counter_entry.table_entry.table_id = table_id
        found: dict[int, int] = {}
        for entity in self._read("reading the workers' counters", request):
            cell = entity.direct_counter_entry
            for match in cell.table_entry.match:
                if match.field_id == job_field:
                    job = int.from_bytes(match.exact.value, "big")
                    found[job] = found.get(job, 0) + int(cell.data.packet_count)
        return found

    def _read(self, what: str, request: Any) -> Iterator[Any]:
        try:
            for response in self._session.stub.Read(request, timeout=self._timeout_s):
                yield from response.entities
        except grpc.RpcError as error:
            raise self._error(what, error) from error


def _update_reason(error: Any) -> str:
    """The switch's reason for refusing the update of a write; empty if it gave none.

    The reason is a p4.v1.Error inside a google.rpc.Status in the trailing metadata (P4Runtime spec, section 12.3).
    """
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in status_pb2.Status.FromString(value).details:
            reason = p4runtime_pb2.Error()
            if detail.Unpack(reason) and reason.canonical_code != code_pb2.OK:
                return f"{code_pb2.Code.Name(reason.canonical_code)}: {reason.message}"
    return ""
