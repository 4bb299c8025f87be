# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A switch without a network: it keeps entries by P4Runtime's rules and checks after every write that no job is
admitted while part of it is missing."""

from __future__ import annotations

from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import EntryChange, Write
from sumwire_controller.deploy.switch import Loaded
from sumwire_controller.derive.entries import Entry, MulticastGroup, TableEntry, counts, is_ledger
from sumwire_controller.errors import SwitchRefusedError


class FakeSwitch:
    """Implements `SwitchControl`. `fail_after` writes are done, the next is refused.

    `running` says whether it runs the program; `other` is the name of another program that it runs instead. `packets`
    are those of each worker since its row was inserted, by (job, worker).
    """

    def __init__(self, entries: frozenset[Entry] = frozenset(), *, running: bool = True) -> None:
        self.held = {entry.identity: entry for entry in entries}
        self.running = running
        self.other = ""
        self.packets: dict[tuple[int, ...], int] = {}
        self.pushes = 0
        self.fail_after: int | None = None
        self.forgets = False
        self.generations_admitted: list[int] = []

    def loaded(self, program: Program) -> Loaded | None:
        return Loaded(self.running, self.other or "sumwire") if self.running or self.other else None

    def push(self, program: Program) -> None:
        self.running = True
        self.pushes += 1
        self.held.clear()
        self.packets.clear()

    def packets_of_jobs(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for (job, _), packets in self.packets.items():
            found[job] = found.get(job, 0) + packets
        return found

    def entries(self, program: Program) -> frozenset[Entry]:
        return frozenset(self.held.values())

    def write(self, program: Program, change: EntryChange) -> None:
        if self.fail_after is not None:
            if self.fail_after == 0:
                raise SwitchRefusedError(f"{change}: told to refuse")
            self.fail_after -= 1
        is_there = change.entry.identity in self.held
        assert is_there is (change.write is not Write.INSERT), f"{change}: there before: {is_there}"
        if change.write is Write.DELETE:
            assert self.held.pop(change.entry.identity) == change.entry
            if counts(change.entry):
                self.packets.pop(change.entry.key, None)  # type: ignore[union-attr]
        elif not self.forgets:
            self.held[change.entry.identity] = change.entry
        if isinstance(change.entry, TableEntry) and change.entry.table == "job" and change.write is Write.INSERT:
            self.generations_admitted.append(change.entry.args[0])
        if not is_ledger(change.entry):
            self._no_job_is_admitted_by_half()

    def _no_job_is_admitted_by_half(self) -> None:
        tables = [entry for entry in self.held.values() if isinstance(entry, TableEntry)]
        for row in tables:
            if row.table != "job":
                continue
            job, group = row.key[0], self.held.get(("multicast group", row.args[4]))
            assert isinstance(group, MulticastGroup), f"job {job} is admitted without its group"
            seats = {instance - 1 for _, instance in group.replicas}
            for table in ("worker", "replica"):
                held = {entry.key[1] for entry in tables if entry.table == table and entry.key[0] == job}
                assert held == seats, f"job {job} is admitted with {table} rows {held} for workers {seats}"
            uplinks = [entry.key[1:3] for entry in tables if entry.table == "uplink" and entry.key[0] == job]
            keys = {(low_bits, len(uplinks) - 1) for low_bits in range(len(uplinks))}
            assert set(uplinks) == keys, f"job {job} is admitted with uplinks {uplinks}"
            if row.args[5] & 1 << 1:
                assert ("thc_low", (job,)) in self.held, f"job {job} is admitted without its table"
