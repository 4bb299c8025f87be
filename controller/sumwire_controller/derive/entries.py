# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A switch's entries: table rows and multicast groups, and the job that each belongs to. Pure functions.

The ledger. Slots are never cleared. Old state in a slot does no harm, because the slot's owner, the job's generation,
has changed. So no generation may be given twice on a switch. One row of the replica table, the ledger, holds the
highest generation given so far. Its job id is one that no configuration may have, so no packet looks it up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from sumwire_protocol.constants import SLOT_WORDS

from sumwire_controller.derive.anf import MONOMIALS
from sumwire_controller.model import DEGRADE_MODES, Degrade, Job, VirtualQueue, mac_text

LEDGER_KEY: Final = ((1 << 16) - 1, (1 << 8) - 1)
"""(job, worker) of the ledger row. Job ids of configurations end far below."""


@dataclass(frozen=True, slots=True, repr=False)
class TableEntry:
    """One row. `key` and `args` are numbers, in the order of the keys and parameters of its `TableShape`."""

    table: str
    key: tuple[int, ...]
    args: tuple[int, ...]

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for two rows of which a switch can hold only one."""
        return (self.table, self.key)

    def arg(self, name: str) -> int:
        """Return the action's argument of that name."""
        return self.args[TABLES[self.table].parameters.index(name)]

    def __str__(self) -> str:
        shape = TABLES[self.table]
        if is_ledger(self):
            return f"{self.table}[{', '.join(map(str, self.key))}] ledger: last generation {self.arg('ip')}"
        key = ", ".join(f"{name}={_shown(name, value)}" for name, value in zip(shape.keys, self.key, strict=True))
        if is_keyed(self):
            # What the key gives is nobody's to read.
            return f"{self.table}[{key}] {KEYED_JOB.action}({_arguments(shape, self.args[: len(JOB.parameters)])})"
        return f"{self.table}[{key}] {shape.action}({_arguments(shape, self.args)})"

    def __repr__(self) -> str:
        return f"<{self}>" if is_keyed(self) else f"TableEntry({self.table!r}, {self.key}, {self.args})"


def is_keyed(entry: TableEntry) -> bool:
    """Return whether this is the row of a job with a key."""
    return entry.table == JOB.name and len(entry.args) > len(JOB.parameters)


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """A multicast group: a packet is copied once for each (port, instance) of `replicas`."""

    group: int
    replicas: frozenset[tuple[int, int]]

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for two groups of which a switch can hold only one."""
        return ("multicast group", self.group)

    def __str__(self) -> str:
        return f"group {self.group}: " + ", ".join(f"{port}#{instance}" for port, instance in sorted(self.replicas))


Entry = TableEntry | MulticastGroup


def _arguments(shape: TableShape, args: tuple[int, ...]) -> str:
    if shape.name in COEFFICIENTS:  # masks of all ones or all zeros: name those that are set
        return " ".join(name for name, value in zip(shape.parameters, args, strict=True) if value)
    return ", ".join(f"{name}={_shown(name, value)}" for name, value in zip(shape.parameters, args, strict=True))


def _shown(name: str, value: int) -> str:
    if name == "mac":
        return mac_text(value)
    if name in ("dst", "address", "ip"):
        return ".".join(str(byte) for byte in value.to_bytes(4, "big"))
    return f"{value:#x}" if name in ("job_ops", "worker_bit", "digest") else str(value)


def group_of(job: Job) -> int:
    """Return the number of a job's multicast group. It is never 0, which means no group."""
    return job.id + 1


def job_of(entry: Entry) -> int | None:
    """Return the job id of an entry; None for entries that belong to no job, and for the ledger."""
    if isinstance(entry, MulticastGroup):
        return entry.group - 1
    if entry.table in (FORWARD.name, AGGREGATOR.name, SOURCE.name, VIRTUAL_QUEUE.name) or is_ledger(entry):
        return None
    return entry.key[0]


def admits(entry: Entry) -> bool:
    """Return whether this row admits a job."""
    return isinstance(entry, TableEntry) and entry.table == JOB.name


def counts(entry: Entry) -> bool:
    """Return whether this row has a counter of its worker's packets."""
    return isinstance(entry, TableEntry) and entry.table == WORKER.name


def admissions(entries: Iterable[Entry]) -> dict[int, TableEntry]:
    """Return the rows of the job table by job id."""
    rows = (entry for entry in entries if isinstance(entry, TableEntry) and admits(entry))
    return {row.key[0]: row for row in rows}


def ledger_entry(last_generation: int) -> TableEntry:
    """Return the ledger row. It holds the generation in the argument that is an IPv4 address in other rows of the
    table."""
    return TableEntry(REPLICA.name, LEDGER_KEY, (0, last_generation, 0))


def is_ledger(entry: Entry) -> bool:
    return isinstance(entry, TableEntry) and entry.table == REPLICA.name and entry.key == LEDGER_KEY


def last_generation(entries: Collection[Entry]) -> int:
    """Return the highest generation in the job table and the ledger; 0 if there is none."""
    in_use = [row.arg("generation") for row in admissions(entries).values()]
    noted = [entry.arg("ip") for entry in entries if isinstance(entry, TableEntry) and is_ledger(entry)]
    return max(in_use + noted, default=0)


WORD_PLANES_LOW: Final = 5
"""Planes whose coefficients are in table `thc_low`; the others are in `thc_high`."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table and an action that the controller installs in it. Keys and parameters are in the program's order.

    An LPM key has two names here: the address and the prefix length. So has a ternary key: the value and the mask. A
    table with a ternary key has the row's priority as its last name.
    """

    name: str
    keys: tuple[str, ...]
    action: str
    parameters: tuple[str, ...]


def _coefficient_names(planes: range) -> tuple[str, ...]:
    return tuple(f"p{plane}_c{monomial:02}" for plane in planes for monomial in range(MONOMIALS))


FORWARD: Final = TableShape("forward", ("dst", "prefix"), "to_port", ("port",))
AGGREGATOR: Final = TableShape("aggregator", ("address",), "serve", ("mac",))
JOB: Final = TableShape(
    "job",
    ("job",),
    "admit_job",
    ("generation", "slot_base", "job_slots", "quorum", "group", "job_ops", "spray", "quorum_least", "digest"),
)
KEYED_JOB: Final = TableShape(
    JOB.name,
    JOB.keys,
    "admit_keyed_job",
    (*JOB.parameters, *(f"hash{word}" for word in range(SLOT_WORDS)), "sip_low", "sip_high"),
)
"""Of a job with a key, in table `job` as well."""
SOURCE: Final = TableShape("source", ("port", "mac", "address"), "known_source", ())
WORKER: Final = TableShape(
    "worker",
    ("job", "worker"),
    "admit_worker",
    ("port", "address", "worker_bit", "worker_weight", "is_switch", "mac", "udp_port", "budget", "budget_cell"),
)
UPLINK: Final = TableShape(
    "uplink",
    ("job", "slot", "mask", "priority"),
    "to_parent",
    ("port", "mac", "address", "worker", "worker_bit"),
)
THC_LOW: Final = TableShape("thc_low", ("job",), "coefficients_low", _coefficient_names(range(WORD_PLANES_LOW)))
THC_HIGH: Final = TableShape(
    "thc_high", ("job",), "coefficients_high", _coefficient_names(range(WORD_PLANES_LOW, SLOT_WORDS))
)
COEFFICIENTS: Final = frozenset({THC_LOW.name, THC_HIGH.name})
"""Tables whose arguments are masks of all ones or all zeros."""
VIRTUAL_QUEUE: Final = TableShape(
    "virtual_queue",
    ("port",),
    "limit",
    ("rate", "mark", "drop3", "drop2", "drop1", "drop0", "drop_all", "trims"),
)
DEGRADE: Final = TableShape("degrade", ("job",), "degrade", ("seed", "share", "mode"))
REPLICA: Final = TableShape("replica", ("job", "worker"), "address", ("mac", "ip", "udp_port"))

_ALL = (FORWARD, AGGREGATOR, JOB, WORKER, SOURCE, UPLINK, THC_LOW, THC_HIGH, REPLICA, VIRTUAL_QUEUE, DEGRADE)
TABLES: Final = {shape.name: shape for shape in _ALL}
"""Every table that the controller writes. It leaves all others alone."""
OTHER_ACTIONS: Final = {KEYED_JOB.name: KEYED_JOB}
"""Tables in which it installs a second action, which takes the first one's parameters and more."""

VERDICT_COUNTER: Final = "verdicts"
REJECT_COUNTER: Final = "rejects"
QUEUE_COUNTER: Final = "queue_decisions"
"""A cell's index: the port, a bit that is set for packets with a priority, 2 bits of drop class, 2 bits of decision."""
WORKER_COUNTER: Final = "worker_packets"
"""Direct counter of table `worker`."""


SEED_BITS: Final = 32
RATE_PER_MBIT: Final = 128
"""1 Mbit/s in the program's unit, bytes per 1024 us: 10^6 / 8 * 1024e-6."""
_SHARE_SCALE: Final = 1 << 16
"""The program compares 16 bits of a hash with the share times this."""


def queue_args(queue: VirtualQueue) -> tuple[int, ...]:
    """Return rate, mark, drop3, drop2, drop1, drop0, drop_all and trims of a `virtual_queue` row."""
    rate = round(queue.rate_mbit * RATE_PER_MBIT)
    return (rate, queue.mark_bytes, *queue.drop_bytes, queue.drop_all_bytes, int(queue.trim))


def budget_args(job: Job) -> tuple[int, int]:
    """Return `budget` and `budget_cell` of a job's `worker` rows."""
    if job.limit_mbit is None:
        return 0, 0
    return max(1, round(job.limit_mbit * RATE_PER_MBIT)), job.slots.base


def degrade_args(degrade: Degrade, lane: int) -> tuple[int, int, int]:
    """Seed, share and mode of a `degrade` row. Each lane has its own seed, so that lanes lose different slots."""
    seed = degrade.seed + lane & (1 << SEED_BITS) - 1
    return seed, round(degrade.share * _SHARE_SCALE), DEGRADE_MODES[degrade.mode]
