# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tables and counters that the controller uses, by the names that P4Info has for them.

These names (P4Info's aliases) do not change when a table moves to another control. `deploy/p4info.py` checks them
against the compiled program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sumwire_protocol.constants import SLOT_WORDS

from sumwire_controller.derive.anf import MONOMIALS

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
