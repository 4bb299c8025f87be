# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The aggregator's state: jobs, slots, counters and senders, as arrays that both numpy and C work on."""

from __future__ import annotations

import mmap
import os
import secrets
import socket
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import CODES

from sumwire.aggregator.jobs import Above, Part
from sumwire.wire.authentication import KEY, key_record

# Unknown senders share this many rows, so that forged addresses take no memory.
_STRANGERS: Final = 16


class Senders:
    """Maps senders' addresses to row numbers. The first ``known`` rows belong to the seats' addresses, one each. All
    other senders share the remaining rows."""

    def __init__(self, parts: Sequence[Part]) -> None:
        ips = {seat.ip for part in parts for seat in part.seats.values()}
        self._addresses = np.sort(np.array([packed_address(ip) for ip in ips], np.uint32))
        self.known = len(self._addresses)
        self.rows = self.known + _STRANGERS

    def rows_of(self, sources: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Return the rows of senders' addresses, (n,)."""
        places = np.minimum(np.searchsorted(self._addresses, sources), self.known - 1)
        strangers = self.known + (sources % _STRANGERS).astype(np.intp)
        return np.where(self._addresses[places] == sources, places, strangers)


def packed_address(ip: str) -> int:
    """Return an IPv4 address as uint32: the four bytes of the packet, read in this machine's byte order."""
    return int(np.frombuffer(socket.inet_aton(ip), np.uint32)[0])


def unpacked_address(number: int) -> str:
    """Return the inverse of :func:`packed_address`."""
    return socket.inet_ntoa(np.uint32(number).tobytes())


# struct aggregator_slot. ``phase``: PHASE_*.
SLOT: Final = np.dtype(
    [
        ("round", np.uint32),
        ("contributors", np.uint32),
        ("count", np.uint8),
        ("flags", np.uint8),
        ("op", np.uint8),
        ("phase", np.uint8),
        ("cut", np.uint8),
        ("used", np.uint8),
        ("bucket", np.uint16),
        ("token", np.uint64),
    ]
)
# struct aggregator_run: of a job's latest run, its token and the round in which it was opened; and the generation that
# the aggregator above has told, 0 before that.
RUN: Final = np.dtype([("token", np.uint64), ("round", np.uint32), ("generation", np.uint32)])
# struct aggregator_job.
JOB: Final = np.dtype(
    [
        ("first_slot", np.uint32),
        ("slots", np.uint32),
        ("quorum", np.uint32),
        ("quorum_least", np.uint32),
        ("ops", np.uint32),
        ("digest", np.uint32),
        ("generation", np.uint32),
        ("in_tree", np.uint32),
        ("coefficients", np.uint32, (p4.SLOT_WORDS,)),
        ("places", np.int32, (p4.JOB_WORKERS_MAX,)),
        ("addresses", np.uint32, (p4.JOB_WORKERS_MAX,)),
        ("udp_ports", ">u2", (p4.JOB_WORKERS_MAX,)),
        ("weights", np.uint8, (p4.JOB_WORKERS_MAX,)),
        ("lower", np.uint32),
        ("above", np.int32),
        ("above_address", np.uint32),
        ("above_port", ">u2"),
        ("above_seat", np.uint8),
        ("in_doubt", np.uint8),
        ("key", KEY),
        ("above_key", KEY),
    ]
)
MONOMIALS: Final = 1 << p4.THC_INDEX_PLANES
_JOB_NUMBERS: Final = 1 << 16
# Each process counts verdicts, reject reasons and, of its sockets, these.
SENT, UNSENT, HANDED_OVER = range(3)
_SOCKET_COUNTERS: Final = 3
_GENERATION_MAX: Final = (1 << 32) - 1


class Shared:
    """Memory that the processes of an aggregator share: counters, the jobs' runs, and when each sender was last
    answered or logged. Processes that are forked later share it too.

    ``generation``: the generation of all jobs; random by default, so that a restarted aggregator has a new one.
    """

    def __init__(self, jobs: Sequence[Part], processes: int = 1, generation: int | None = None) -> None:
        counters = p4.VERDICTS + p4.REJECTS + _SOCKET_COUNTERS
        self.senders = Senders(jobs)
        self.counters = _shared((processes, counters), np.uint64)
        self.generation = generation or 1 + secrets.randbelow(_GENERATION_MAX)
        # A run is opened in one slot, and so in one process.
        self.runs = _shared((len(jobs),), RUN)
        # By job, the slot that the open HELLO to the parent aggregator names; -1 once it has answered.
        self.asked = _shared((len(jobs),), np.int32)
        self.asked[:] = -1
        # By job, whether the parent aggregator may be gone or restarted.
        self.doubted = _shared((len(jobs),), np.uint8)
        # By sender, and of the log also by reason.
        self.told_at = _shared((self.senders.known,), np.float64)
        self.logged_at = _shared((self.senders.rows, p4.REJECTS), np.float64)
        for times in (self.told_at, self.logged_at):
            times[:] = -np.inf


def _shared(shape: tuple[int, ...], kind: npt.DTypeLike) -> NDArray[Any]:
    """Allocate an array of zeros in memory that is shared with processes forked later."""
    array: NDArray[Any] = np.frombuffer(mmap.mmap(-1, prod(shape) * np.dtype(kind).itemsize), kind)
    return array.reshape(shape)


class State:
    """The slots and admission tables of all jobs in one process, number ``process``.

    ``parts``: the aggregator's part of each job. ``places``: the receivers of replies as (ip, UDP port): the seats of
    each job, followed by the job's parent aggregator. ``seed``: for SIGN's random bits, and for the generation where no
    ``shared`` is given.
    """

    def __init__(
        self, jobs: Sequence[Part], shared: Shared | None = None, process: int = 0, seed: int | None = None
    ) -> None:
        self.parts = tuple(jobs)
        self.shared = shared or Shared(jobs, generation=None if seed is None else 1 + seed % _GENERATION_MAX)
        self.seed = int.from_bytes(os.urandom(8)) if seed is None else seed
        self.places: list[tuple[str, int]] = []
        self.job_of: NDArray[np.int32] = np.full(_JOB_NUMBERS, -1, np.int32)
        self.jobs = np.zeros(len(jobs), JOB)
        slots = 0
        for index, part in enumerate(jobs):
            self.job_of[part.job.job] = index
            self.jobs[index] = self._job(part, slots)
            slots += part.job.slots
        self.most_seats = max(len(part.seats) for part in jobs)
        self.slots: NDArray[Any] = np.zeros(slots, SLOT)
        self.words: NDArray[np.uint8] = np.zeros((slots, p4.SLOT_WORDS, p4.WORD_BYTES), np.uint8)
        counters = self.shared.counters[process]
        self.verdicts = counters[: p4.VERDICTS]
        self.rejects = counters[p4.VERDICTS :][: p4.REJECTS]
        self.sockets = counters[p4.VERDICTS + p4.REJECTS :]
        self.adopt()

    def adopt(self) -> None:
        """Copy the generations that parent aggregators have reported, and empty the slots of jobs whose generation
        changed."""
        # Doubts are read first: another process clears a doubt only after it has written the generation.
        self.jobs["in_doubt"] = self.shared.doubted
        told = self.shared.runs["generation"]
        for index in np.flatnonzero((told != 0) & (told != self.jobs["generation"])):
            job = self.jobs[index]
            job["generation"] = told[index]
            self.slots[job["first_slot"] :][: job["slots"]] = 0

    def _job(self, part: Part, first_slot: int) -> Any:
        entry, job = np.zeros((), JOB), part.job
        entry["first_slot"], entry["slots"], entry["quorum"] = first_slot, job.slots, part.quorum
        entry["quorum_least"] = job.quorum_least
        entry["ops"] = sum(1 << CODES[op] for op in job.ops)
        entry["digest"], entry["generation"] = job.digest, self.shared.generation
        entry["in_tree"] = part.in_tree
        entry["key"] = key_record(job.key, job.job, part.aggregator)
        if job.thc is not None:
            entry["coefficients"] = coefficients(job.thc.table)
        entry["places"] = -1
        for number, seat in part.seats.items():
            entry["places"][number] = len(self.places)
            entry["addresses"][number] = packed_address(seat.ip)
            entry["udp_ports"][number] = seat.udp_port
            entry["weights"][number] = seat.weight
            entry["lower"] |= seat.is_lower << number
            self.places.append((seat.ip, seat.udp_port))
        entry["above"] = -1
        if part.above is not None:
            self._set_above(entry, part, part.above)
        return entry

    def _set_above(self, entry: NDArray[Any], part: Part, above: Above) -> None:
        entry["above"] = len(self.places)
        entry["above_address"], entry["above_port"] = packed_address(above.ip), above.udp_port
        entry["above_seat"] = above.seat
        entry["above_key"] = key_record(part.job.key, part.job.job, above.ip)
        self.places.append((above.ip, above.udp_port))


def coefficients(table: Sequence[int]) -> list[int]:
    """Return a THC table as polynomials over GF(2): one 16-bit number for each plane of the values.

    Plane k, counted from the least significant, is the XOR of the monomials whose bits are set in number k. Monomial m
    is the AND of the index planes that m's set bits name. Rows that the table lacks are 0; no worker sends their index.
    """
    rows = np.zeros(MONOMIALS, np.int64)
    rows[: len(table)] = table
    truth = rows >> np.arange(p4.SLOT_WORDS)[:, None] & 1
    # The Moebius transform, a step for each index bit.
    for step in (1 << bit for bit in range(p4.THC_INDEX_PLANES)):
        with_bit = np.flatnonzero(np.arange(MONOMIALS) & step)
        truth[:, with_bit] ^= truth[:, with_bit ^ step]
    return [int(plane @ (1 << np.arange(MONOMIALS))) for plane in truth]
