# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Answers refused packets with REFUSED, and logs them. Used by `core` and `server`.

REFUSED tells a known sender why its packet was refused, at most once in REFUSAL_GAP_US. Only contributions and probes
are answered, so two programs cannot answer each other for ever. The answer is a header alone, so it is never longer
than the packet. Unknown senders get no answer.

The log has at most one line per sender and reason in 10 s. Each line ends with the cure.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event
from sumwire_protocol.ops import OPS

from sumwire.aggregator import batches
from sumwire.aggregator.admission import FROM_WORKERS
from sumwire.aggregator.batches import Batch, Refusal
from sumwire.aggregator.jobs import Part, Seat
from sumwire.aggregator.state import State, unpacked_address
from sumwire.wire.packets import HEADER_BYTES, chunks_of, first_byte, headers

_GAP_S: Final = p4.REFUSAL_GAP_US / 1e6
_CLEARED: Final = ("contributors", "flags", "words")


class Rejecter:
    """Prepares REFUSED answers to the refused datagrams of batches."""

    def __init__(self, state: State) -> None:
        self._senders, self._told_at = state.shared.senders, state.shared.told_at

    def answers(self, batch: Batch, reasons: NDArray[np.uint8], now: float) -> list[Refusal]:
        """Return the REFUSED answers to the datagrams of a batch that were refused. ``now`` is in seconds."""
        which = np.flatnonzero(reasons)
        which = which[batch.sizes[which] >= HEADER_BYTES]
        kinds = headers(batch.rows)["version_kind"][which] & 0xF
        return [_answer(batch, row, reasons) for row in self._due(batch, which[np.isin(kinds, FROM_WORKERS)], now)]

    def _due(self, batch: Batch, which: NDArray[np.intp], now: float) -> Iterator[int]:
        """Yield the first datagram of each known sender that has not been answered within the gap."""
        senders, first = np.unique(self._senders.rows_of(batch.sources[which]), return_index=True)
        known = senders < self._senders.known
        senders, first = senders[known], first[known]
        due = now - self._told_at[senders] >= _GAP_S
        self._told_at[senders[due]] = now
        return map(int, np.sort(which[first[due]]))


def _answer(batch: Batch, row: int, reasons: NDArray[np.uint8]) -> Refusal:
    packet = batch.rows[row : row + 1, :HEADER_BYTES].copy()
    head = headers(packet)
    head["version_kind"], head["count"] = first_byte(p4.KIND_REFUSED), reasons[row]
    for name in _CLEARED:
        head[name] = 0
    # No planes are cut.
    head["cut_chunk"] = chunks_of(head)
    sender = unpacked_address(batch.sources[row]), int(batch.ports[row])
    return Refusal(packet.tobytes(), sender, int(batch.tos[row]) & batches.PRIORITY_BITS | p4.ECN_ECT)


GAP_S: Final = 10.0
_LOG: Final = logging.getLogger("sumwire.aggregator")
_REASONS: Final = {code: name.removeprefix("REJECT_") for name, code in vars(p4).items() if name.startswith("REJECT_")}
_OP_NAMES: Final = {op.code: op.name for op in OPS}
_FIELDS: Final = ("version_kind", "op", "job", "slot", "worker", "count", "round", "flags")
_SAME_VERSION: Final = "install one version of Sumwire on workers and aggregator (sumwire-aggregator --version)"
_SAME_FILE: Final = "give the workers and the aggregator one and the same job file: sumwire-aggregator JOB.json"
_DOCTOR: Final = "nothing is wrong if `sumwire doctor` has asked there"
_SAME_TREE: Final = (
    "in a tree of aggregators give all of them one job file, with `tree`, and each its own address: sumwire-aggregator "
    "JOB.json --at ADDRESS"
)


class RefusalLog:
    """Logs refused datagrams at level warning. Text from packets and job files is escaped."""

    def __init__(self, state: State) -> None:
        self._senders, self._logged_at = state.shared.senders, state.shared.logged_at
        self._parts = {part.job.job: part for part in state.parts}

    def note(self, batch: Batch, reasons: NDArray[np.uint8], now: float) -> None:
        """Log the datagrams that were refused for ``reasons``. A sender that was logged less than 10 s before ``now``
        is skipped."""
        which = np.flatnonzero(reasons)
        senders = self._senders.rows_of(batch.sources[which])
        new = now - self._logged_at[senders, reasons[which]] >= GAP_S
        for row, sender in zip(which[new], senders[new], strict=True):
            # Another packet of the same batch may have been logged by now.
            if now - self._logged_at[sender, reasons[row]] >= GAP_S:
                self._logged_at[sender, reasons[row]] = now
                self._tell(batch, int(row), int(reasons[row]))

    def _tell(self, batch: Batch, row: int, reason: int) -> None:
        head = headers(batch.rows[row : row + 1])
        fields = {name: int(head[name][0]) for name in _FIELDS}
        refused = _Refused(unpacked_address(batch.sources[row]), int(batch.sizes[row]), fields, self._parts)
        said = fields if reason != p4.REJECT_LENGTH else dict.fromkeys(fields)
        part = self._parts.get(said["job"] or 0)
        told = Event.REFUSED(
            job=said["job"], worker=part and part.worker(fields["worker"]), name=part and part.job.name,
            sender=refused.sender, reason=_REASONS[reason], op=said["op"] and refused.op, slot=said["slot"],
            round=said["round"],
        )  # fmt: skip
        _LOG.warning("%s", _LINES[reason].format(of=refused), extra=told)


class _Refused(NamedTuple):
    """A refused datagram. The ``fields`` of a datagram that is shorter than a header are meaningless."""

    sender: str
    size: int
    fields: Mapping[str, int]
    parts: Mapping[int, Part]

    @property
    def job(self) -> str:
        number = self.fields["job"]
        return f"job {number} ({self.part.job.name!r})"

    @property
    def part(self) -> Part:
        return self.parts[self.fields["job"]]

    @property
    def seat(self) -> Seat:
        return self.part.seats[self.fields["worker"]]

    @property
    def op(self) -> str:
        return _OP_NAMES.get(self.fields["op"], str(self.fields["op"]))

    @property
    def version(self) -> int:
        return self.fields["version_kind"] >> 4

    @property
    def kind(self) -> int:
        return self.fields["version_kind"] & 0xF

    @property
    def jobs(self) -> str:
        return ", ".join(map(str, sorted(self.parts)))

    @property
    def seats(self) -> str:
        return ", ".join(map(str, sorted(self.part.seats)))

    @property
    def ops(self) -> str:
        return ", ".join(self.part.job.ops)

    @property
    def above(self) -> str:
        above = self.part.above
        return f"this aggregator's is {above.ip}:{above.udp_port}" if above else "this aggregator has none"


# By reason, with fields of :class:`_Refused`.
_LINES: Final[Mapping[int, str]] = {
    p4.REJECT_LENGTH: "a datagram of {of.size} bytes from {of.sender} is no whole Sumwire packet: raise the MTU on the "
    f"way (ip link set mtu), or end the program there that sends to UDP port {p4.SUMWIRE_PORT}",
    p4.REJECT_VERSION: "wire version {of.version} from {of.sender}, this aggregator speaks "
    f"{p4.SUMWIRE_VERSION}: {_SAME_VERSION}",
    p4.REJECT_KIND: f"a packet of kind {{of.kind}} from {{of.sender}}, which no worker sends: {_SAME_VERSION}",
    p4.REJECT_OP: f"op {{of.fields[op]}} from {{of.sender}}, which this aggregator does not know: {_SAME_VERSION}",
    p4.REJECT_WORDS: "op {of.op} from {of.sender} with a payload that no worker sends: "
    f"{_DOCTOR}; {_SAME_VERSION}; {_SAME_TREE}",
    p4.REJECT_JOB: "unknown job {of.fields[job]} from {of.sender}: this aggregator serves jobs {of.jobs}; start it "
    "with that job's file: sumwire-aggregator JOB.json ...",
    p4.REJECT_WORKER: "{of.job}: seat {of.fields[worker]} from {of.sender}, the job file has seats {of.seats}: "
    + _SAME_FILE,
    p4.REJECT_ADDRESS: "{of.job}: seat {of.fields[worker]} from {of.sender}, the job file says {of.seat.ip}: start "
    "that worker there, or correct its `ip` in the job file of all workers and of sumwire-aggregator JOB.json",
    p4.REJECT_UDP_PORT: "{of.job}: seat {of.fields[worker]} from {of.sender}, from another UDP port than the job "
    "file's {of.seat.udp_port}: end the program there that sends in the worker's name, or correct `udp_port` in the "
    "job file of all",
    p4.REJECT_FLAGS: "{of.job}: flags {of.fields[flags]:#x} from {of.sender}, which only a lower switch sets: "
    + _SAME_VERSION,
    p4.REJECT_SLOT: "{of.job}: slot {of.fields[slot]} from {of.sender}, the job file has {of.part.job.slots}: "
    + _SAME_FILE,
    p4.REJECT_JOB_OP: "{of.job}: op {of.op} from {of.sender}, the job file has {of.ops}: add it to `ops` there, then "
    + _SAME_FILE,
    p4.REJECT_COUNT: "{of.job}: a sum of {of.fields[count]} from {of.sender}, which stands for fewer: " + _SAME_TREE,
    p4.REJECT_CALL: "{of.job}: op {of.op} from {of.sender} in slot {of.fields[slot]}, round {of.fields[round]}, which "
    "another call began: let all workers make the same calls in the same order, and start the job again on all",
    p4.REJECT_PARENT: "{of.job}: from {of.sender} as from an aggregator above, {of.above}: " + _SAME_TREE,
    p4.REJECT_TOKEN: "{of.job}: from {of.sender}, of a run that is not open here: the aggregator was restarted, or "
    "another run has begun: start all workers of the job again",
    p4.REJECT_ROUND: "{of.job}: slot {of.fields[slot]}, round {of.fields[round]} from {of.sender}, which is not the "
    "slot's next one: start all workers of the job again",
    p4.REJECT_TAG: "{of.job}: from {of.sender}, a wrong authentication tag or none, or one although the job has no "
    "key: somebody else sends in the worker's name, or its `key` file is another than this aggregator's: give all the "
    "same file",
}
