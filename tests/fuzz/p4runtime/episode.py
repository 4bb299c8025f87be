# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A fresh pipeline, an election, writes and reads of several clients at once, and at the end a look at everything.

Every client has a part of the tables, counters and groups to itself, so that its answers are the same in any order of
the clients' requests: a seed and a number repeat an episode.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from fuzz.p4runtime.clients import Client, Elections, Outcome, with_id
from fuzz.p4runtime.model import INVALID, Faults, Model, Resource, Schema, everything, name_of, normal, resource_of
from fuzz.p4runtime.oracle import Verdict, answer, judge
from fuzz.p4runtime.requests import Draw, Mutations

CLIENTS = 4
#: Fewer than fill the details of an answer.
BATCH = 24
ELECTION_STEPS = 16
WRONG_PIPELINES = 8
_MUTATED = 0.35  # of the updates and reads
_RAW = 0.03  # of the requests: bytes are changed
_READS = 0.25  # of the requests
_GROUPS = (*range(1, 13), 65535)
_SESSIONS = (*range(1, 8), 32767)
_REQUEST = p4runtime_pb2.WriteRequest
_UPDATE = p4runtime_pb2.Update
#: What takes an update back.
_UNDO = {_UPDATE.INSERT: _UPDATE.DELETE, _UPDATE.DELETE: _UPDATE.INSERT}
_NEVER = (code_pb2.UNKNOWN, code_pb2.INTERNAL)

#: What differs, and how. A strict one raises.
Report = Callable[[str, str], None]


@dataclass
class Tally:
    updates: int = 0
    reads: int = 0
    writes: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Tally) -> Tally:
        for name in ("updates", "reads", "writes", "accepted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refused += other.refused
        return self


@dataclass
class Episode:
    """``base``: ids of elections are above it. ``updates``: of all clients together. ``bmv2``: the switch is
    simple_switch_grpc: its elections are not looked at, a refused pipeline costs it the one that it has, and it says
    nothing of a read's parts."""

    address: str
    device_id: int
    schema: Schema
    config: Any
    seed: str
    base: int
    updates: int
    report: Report
    bmv2: bool = False

    def run(self) -> Tally:
        clients = [Client(self.address) for _ in range(CLIENTS)]
        try:
            return self._run(clients)
        finally:
            for client in clients:
                client.close()

    def _run(self, clients: Sequence[Client]) -> Tally:
        generator = random.Random(self.seed)
        elections = Elections(clients, self.device_id, self.base, generator, self.report)
        if self.bmv2:
            elections.settle()
        else:
            elections.fuzz(ELECTION_STEPS)
        model = self._begin(clients[0], elections)
        for _ in range(0 if self.bmv2 else WRONG_PIPELINES):
            self._wrong_pipeline(generator.choice(clients), elections, generator)
        workers = [
            Worker(self, client, model, _part(self.schema, number), elections.primary_id, f"{self.seed}:{number}")
            for number, client in enumerate(clients)
        ]
        with ThreadPoolExecutor(CLIENTS) as threads:
            tallies = list(threads.map(Worker.run, workers))
        total = Tally()
        for tally in tallies:
            total += tally
        workers[0].read_everything()
        elections.leave_all()
        return total

    def _begin(self, client: Client, elections: Elections) -> Model:
        """Set the pipeline; the model holds what the switch does then."""
        _check(self.report, "pipeline", self._set_pipeline(client, elections.primary_id, self.config), set())
        model = Model(self.schema)
        for request in everything(model):
            adopt(model, client, self.device_id, resource_of(request))
        return model

    @contextmanager
    def alone(self) -> Iterator[Worker]:
        """The only client, without fuzz: it writes and reads what it is told to, and compares the answers."""
        with closing(Client(self.address)) as client:
            elections = Elections([client], self.device_id, self.base, random.Random(self.seed), self.report)
            elections.settle()
            yield Worker(self, client, self._begin(client, elections), (), elections.primary_id, self.seed)
            elections.leave_all()

    def _set_pipeline(self, client: Client, election_id: int | None, config: Any, action: int = 3) -> Outcome:
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=self.device_id, config=config, action=action
        )
        return client.set_pipeline(with_id(request, election_id))

    def _wrong_pipeline(self, client: Client, elections: Elections, generator: random.Random) -> None:
        """It changes nothing."""
        allowed = {INVALID}
        election_id = elections.primary_id
        if generator.random() < 0.2:
            election_id = generator.choice((None, self.base + 999_999))
            allowed = {code_pb2.PERMISSION_DENIED}
        empty = p4runtime_pb2.ForwardingPipelineConfig()
        garbage = p4runtime_pb2.ForwardingPipelineConfig(p4info=self.config.p4info, p4_device_config=b"{]")
        binary = p4runtime_pb2.ForwardingPipelineConfig(p4info=self.config.p4info, p4_device_config=b"\xff\x00")
        config = generator.choice((empty, garbage, binary))
        action = generator.choice((0, 1, 2, 3, 4, 5, 9))
        if action in (2, 4, 5):
            allowed |= {code_pb2.UNIMPLEMENTED}
        _check(self.report, "pipeline that is none", self._set_pipeline(client, election_id, config, action), allowed)


def _part(schema: Schema, number: int) -> list[Resource]:
    """What client ``number`` writes."""
    everything_there: list[Resource] = [("table", table) for table in sorted(schema.tables)]
    everything_there += [("counter", counter) for counter in sorted(schema.counters)]
    groups: list[Resource] = [("group", group) for group in _GROUPS[number::CLIENTS]]
    sessions: list[Resource] = [("session", session) for session in _SESSIONS[number::CLIENTS]]
    return everything_there[number::CLIENTS] * 4 + groups + sessions


def _check(report: Report, what: str, outcome: Outcome, codes: set[int]) -> None:
    """``codes`` empty: it must be OK."""
    if outcome.code not in (codes or {code_pb2.OK}):
        wanted = " or ".join(map(name_of, sorted(codes))) or "OK"
        report(what, f"{name_of(outcome.code)} instead of {wanted}: {outcome.text[:300]}")


def adopt(model: Model, client: Client, device_id: int, resource: Resource | None) -> None:
    """Let the model hold what the switch says that it holds."""
    if resource is None:
        return
    kind, number = resource
    if kind == "table" and number in model.schema.tables:
        table = model.schema.tables[number]
        asked = p4runtime_pb2.TableEntry(table_id=number)
        asked.counter_data.SetInParent()
        model.adopt_entries(table, [each.table_entry for each in _read(client, device_id, table_entry=asked)])
        asked = p4runtime_pb2.TableEntry(table_id=number, is_default_action=True)
        model.adopt_default(table, [each.table_entry for each in _read(client, device_id, table_entry=asked)])
    elif kind == "counter" and number in model.schema.counters:
        cells = _read(client, device_id, counter_entry=p4runtime_pb2.CounterEntry(counter_id=number))
        model.adopt_cells(number, [each.counter_entry for each in cells])
    elif kind == "group" and number:
        asked = p4runtime_pb2.PacketReplicationEngineEntry()
        asked.multicast_group_entry.multicast_group_id = number
        found = _read(client, device_id, packet_replication_engine_entry=asked)
        model.adopt_group(number, [each.packet_replication_engine_entry.multicast_group_entry for each in found])
    elif kind == "session" and number:
        asked = p4runtime_pb2.PacketReplicationEngineEntry()
        asked.clone_session_entry.session_id = number
        found = _read(client, device_id, packet_replication_engine_entry=asked)
        model.adopt_session(number, [each.packet_replication_engine_entry.clone_session_entry for each in found])


def _read(client: Client, device_id: int, **entity: Any) -> tuple[Any, ...]:
    request = p4runtime_pb2.ReadRequest(device_id=device_id, entities=[p4runtime_pb2.Entity(**entity)])
    return client.read(request.SerializeToString()).answers


class Worker:
    """One client's writes and reads of its part."""

    def __init__(
        self,
        episode: Episode,
        client: Client,
        model: Model,
        part: Sequence[Resource],
        election_id: int | None,
        seed: str,
    ) -> None:
        self._episode = episode
        self._client = client
        self._model = model
        self._owned = frozenset(part)
        self._election_id = election_id
        self._random = random.Random(seed)
        self._draw = Draw(model, part, self._random)
        schema = episode.schema
        ids = (*schema.tables, *schema.counters, *{each for table in schema.tables.values() for each in table.actions})
        self._mutations = Mutations(ids, self._random)
        self._tally = Tally()

    def run(self) -> Tally:
        while self._tally.updates < self._episode.updates // CLIENTS:
            if self._random.random() < _READS:
                most = 1 if self._episode.bmv2 else 4
                self.read([self._fuzzed(self._draw.read, lambda entity: entity) for _ in range(self._size(most))])
            else:
                self._write()
        return self._tally

    def _size(self, most: int) -> int:
        return min(most, self._random.choice((1, 2, most // 2 + 1, self._random.randint(1, most))))

    def _fuzzed(self, draw: Callable[[], Any], entity_of: Callable[[Any], Any]) -> Any:
        """A message that is about this client's part, or about nothing that has a state."""
        while True:
            message = draw()
            if self._random.random() < _MUTATED:
                self._mutations.apply(message)
            if self._is_own(entity_of(message)):
                return message

    def _is_own(self, entity: Any) -> bool:
        resource = resource_of(entity)
        if resource is None or resource in self._owned:
            return True
        kind, number = resource
        schema = self._episode.schema
        # Ids that are nobody's must be refused. 0 asks for everything.
        known = {"table": number in schema.tables, "counter": number in schema.counters, "group": number < 1 << 16}
        known["session"] = number < 1 << 15
        return number != 0 and not known[kind]

    # -- writes ----------------------------------------------------------

    def _write(self) -> None:
        updates = [self._fuzzed(self._draw.update, lambda update: update.entity) for _ in range(self._size(BATCH))]
        request = with_id(_REQUEST(device_id=self._episode.device_id, updates=updates), self._election_id)
        kind = self._random.random()
        if kind < 0.05:
            request.ClearField("updates")
            self._mutations.apply(request)
            request.updates.extend(updates)
        raw = request.SerializeToString()
        if kind > 1 - _RAW:
            raw = self._mutations.flip(raw)
        self._send(raw)

    def _send(self, raw: bytes) -> None:
        try:
            request = _REQUEST.FromString(raw)
        except DecodeError:
            outcome = self._client.write(raw)
            _check(self._episode.report, "bytes that are no WriteRequest", outcome, {INVALID})
            return
        if not all(self._is_own(update.entity) for update in request.updates):
            return
        self._exchange(request, raw)

    def write(self, updates: Sequence[Any]) -> None:
        """These updates and no others."""
        request = with_id(_REQUEST(device_id=self._episode.device_id, updates=updates), self._election_id)
        self._exchange(request, request.SerializeToString())

    def write_each_change(self, update: Any) -> None:
        """Every single change of an update that the switch would take now, each of what is there now."""
        updates: list[Any] = []
        for changed in self._mutations.each(update):
            updates.append(changed)
            undo = _UNDO.get(changed.type) if judge(self._model, changed).change is not None else None
            if undo is not None:
                kept = changed if update.type == _UPDATE.INSERT else update
                updates.append(_UPDATE(type=undo, entity=kept.entity))
            if self._episode.bmv2 or len(updates) >= BATCH:
                self.write(updates)
                updates = []
        self.write(updates)

    def read_each_change(self, entity: Any) -> None:
        changes = list(self._mutations.each(entity))
        for first in range(0, len(changes), BATCH):
            self.read(changes[first : first + BATCH])

    def read_everything(self) -> None:
        for entity in everything(self._model):
            self.read([entity])

    def _exchange(self, request: Any, raw: bytes) -> None:
        outcome = self._client.write(raw)
        self._tally.writes += 1
        self._tally.updates += len(request.updates)
        refusals = self._refusals(request)
        if refusals:
            _check(self._episode.report, "WriteRequest", outcome, refusals)
            return
        self._compare(request, outcome)

    def _refusals(self, request: Any) -> set[int]:
        """Codes that the whole request may be refused with."""
        codes = set()
        if request.device_id != self._episode.device_id or request.role or request.role_id:
            codes.add(code_pb2.NOT_FOUND)
        given = request.election_id.high << 64 | request.election_id.low
        if not request.HasField("election_id") or given != self._election_id:
            codes.add(code_pb2.PERMISSION_DENIED)
        if request.atomicity not in _REQUEST.Atomicity.values():
            codes.add(INVALID)
        elif request.atomicity != _REQUEST.CONTINUE_ON_ERROR:
            codes.add(code_pb2.UNIMPLEMENTED)
        return codes

    def _compare(self, request: Any, outcome: Outcome) -> None:
        codes = self._codes(len(request.updates), outcome)
        if codes is None:
            return
        for update, code in zip(request.updates, codes, strict=True):
            verdict = judge(self._model, update)
            self._tally.accepted += code == code_pb2.OK
            self._tally.refused[name_of(code)] += code != code_pb2.OK
            if code in (verdict.codes or {code_pb2.OK}):
                if verdict.change is not None:
                    verdict.change()
                continue
            self._differs(update, verdict, code)

    def _codes(self, count: int, outcome: Outcome) -> Sequence[int] | None:
        """Of the updates, one each. None where the answer has none."""
        if outcome.code == code_pb2.OK:
            return [code_pb2.OK] * count
        if outcome.code != code_pb2.UNKNOWN or outcome.items is None or len(outcome.items) != count:
            self._episode.report("WriteRequest", f"{name_of(outcome.code)} for {count} updates: {outcome.text[:300]}")
            return None
        return outcome.items

    def _differs(self, update: Any, verdict: Verdict, code: int) -> None:
        wanted = " or ".join(map(name_of, sorted(verdict.codes))) or "OK"
        never = ", which no update may be answered with" if code in _NEVER else ""
        kind = f"{p4runtime_pb2.Update.Type.Name(update.type)} " if update.type in (1, 2, 3) else ""
        what = f"{kind}{update.entity.WhichOneof('entity')} ({verdict.why or 'nothing wrong'})"
        shown = text_format.MessageToString(update, as_one_line=True)[:1500]
        self._episode.report(f"{what}: {name_of(code)} instead of {wanted}{never}", shown)
        adopt(self._model, self._client, self._episode.device_id, resource_of(update.entity))

    # -- reads -----------------------------------------------------------

    def read(self, requests: Sequence[Any]) -> None:
        self._tally.reads += 1
        message = p4runtime_pb2.ReadRequest(device_id=self._episode.device_id, entities=requests)
        faults = [Faults() for _ in requests]
        wanted: list[bytes] = []
        for request, own in zip(requests, faults, strict=True):
            found = answer(self._model, request, own)
            if not own:
                wanted += [normal(each) for each in found]
        outcome = self._client.read(message.SerializeToString())
        shown = text_format.MessageToString(message, as_one_line=True)[:1500]
        kinds = ", ".join(sorted({str(request.WhichOneof("entity")) for request in requests}))
        if not self._fits(faults, outcome):
            words = [", ".join(each.words) for each in faults]
            code = [name_of(each) for each in outcome.items or (outcome.code,)]
            self._episode.report(f"read of {kinds} ({words}): {code}", f"{outcome.text[:300]}; {shown}")
            return
        got = [normal(each) for each in outcome.answers]
        if sorted(got) != sorted(wanted):
            extra, missing = Counter(got) - Counter(wanted), Counter(wanted) - Counter(got)
            differences = f"unexpected {_texts(extra)}, missing {_texts(missing)}"
            self._episode.report(f"read of {kinds}: differs from the model", f"{differences}; {shown}")
            for request in requests:
                adopt(self._model, self._client, self._episode.device_id, resource_of(request))

    def _fits(self, faults: Sequence[Faults], outcome: Outcome) -> bool:
        if not any(faults):
            return bool(outcome.code == code_pb2.OK)
        if self._episode.bmv2:
            return any(outcome.code in own.codes for own in faults)
        items = outcome.items or ()
        return (
            outcome.code == code_pb2.UNKNOWN
            and len(items) == len(faults)
            and all(code in (own.codes or {code_pb2.OK}) for code, own in zip(items, faults, strict=True))
        )


def _texts(entities: Counter[bytes]) -> str:
    shown = [text_format.MessageToString(p4runtime_pb2.Entity.FromString(raw), as_one_line=True) for raw in entities]
    return f"{len(shown)}: {'; '.join(shown[:3])}"[:1500]
