# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Names of the P4 program that the controller writes to. `p4info.py` checks them against the compiled program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sumwire_controller._p4 import SLOT_WORDS
from sumwire_controller.anf import MONOMIALS

WORD_PLANES_LOW: Final = 5
"""Planes whose coefficients are in table `thc_low`; the others are in `thc_high`."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table with the one action the controller installs in it; keys and parameters in the program's order."""

    name: str
    keys: tuple[str, ...]
    action: str
    parameters: tuple[str, ...]


def _coefficient_names(planes: range) -> tuple[str, ...]:
    return tuple(f"p{plane}_c{monomial:02}" for plane in planes for monomial in range(MONOMIALS))


FORWARD: Final = TableShape("ingress.forward", ("dst",), "to_port", ("port",))
AGGREGATOR: Final = TableShape("ingress.aggregator", ("address",), "serve", ("mac",))
JOB: Final = TableShape(
    "ingress.job", ("job",), "admit_job", ("generation", "slot_base", "job_slots", "quorum", "group", "job_ops")
)
WORKER: Final = TableShape(
    "ingress.worker",
    ("job", "worker"),
    "admit_worker",
    ("port", "address", "worker_bit", "worker_weight"),
)
THC_LOW: Final = TableShape("ingress.thc_low", ("job",), "coefficients_low", _coefficient_names(range(WORD_PLANES_LOW)))
THC_HIGH: Final = TableShape(
    "ingress.thc_high", ("job",), "coefficients_high", _coefficient_names(range(WORD_PLANES_LOW, SLOT_WORDS))
)
REPLICA: Final = TableShape("egress.replica", ("job", "worker"), "address", ("mac", "ip", "udp_port"))

TABLES: Final = {shape.name: shape for shape in (FORWARD, AGGREGATOR, JOB, WORKER, THC_LOW, THC_HIGH, REPLICA)}
"""Every table the controller owns; it leaves all others alone."""

VERDICT_COUNTER: Final = "ingress.verdicts"
REJECT_COUNTER: Final = "ingress.rejects"
