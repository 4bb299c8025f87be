# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-thc`: every number that THC promises. Experiments, and the checks that are computed from what they
measure.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sumwire_lab.bench import switch
from sumwire_lab.bench.benchmark import run_in_network
from sumwire_lab.bench.switch import SwitchCommand
from sumwire_lab.errors import LabError
from sumwire_lab.network import switches
from sumwire_lab.network.switches import BMV2
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check, absent, equal, holds
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify import shared
from sumwire_lab.verify.plan import Plan
from sumwire_lab.verify.processes import codec_record, packet_tests
from sumwire_lab.verify.shared import accuracy

ORACLE_TOLERANCE: Final = 0.03
SWITCH_RATIO_MIN: Final = 1.0


def impaired_checks(thc: dict[str, Any], gloo: dict[str, Any], impair: str) -> list[Check]:
    """A run through a switch that loses, doubles and reorders."""
    label = f"impaired ({impair})"
    return [
        accuracy(label, thc, gloo),
        equal(f"{label}: fall-backs", thc["fallbacks"], 0),
        equal(f"{label}: replicas bit-equal", thc["replicas_equal"], True),
        holds(
            f"{label}: retransmissions", thc["retransmissions"], "> 0: losses did happen", thc["retransmissions"] > 0
        ),
    ]


def malformed_checks(thc: dict[str, Any], clean: dict[str, Any], packets: int) -> list[Check]:
    """A run beside malformed packets: same parameters as without them, each packet under its reason."""
    flood = thc["malformed"]
    sent, counted = flood["sent"], {name: n for name, n in flood["counted"].items() if n}
    total = sum(sent.values())
    return [
        holds(
            f"{packets} malformed packets: sent",
            total,
            f"{packets}, all during the training",
            total == packets and bool(flood["all_sent_during_training"]),
        ),
        equal(f"{packets} malformed packets: counted by reason", counted, sent, f"as sent: {sent}"),
        holds(
            f"{packets} malformed packets: parameters after the training",
            thc["fingerprints"][0][:16],
            f"bit-equal to the run without: {clean['fingerprints'][0][:16]}, no fall-back",
            thc["fingerprints"] == clean["fingerprints"] and thc["fallbacks"] == 0,
        ),
    ]


def oracle_checks(rows: Sequence[tuple[str, float, float]]) -> list[Check]:
    """Measured against derived values."""
    return [
        holds(f"oracle: {name}", value, f"{wanted:.6g} within 3 %", abs(value - wanted) <= ORACLE_TOLERANCE * wanted)
        for name, value, wanted in rows
    ]


IMPAIR: Final = "drop=0.01,dup=0.01,reorder=0.02,seed=7"
MALFORMED: Final = 100_000
# A rate at which the training lasts longer than the malformed packets. Its result does not depend on the rate.
FLOODED: Final = LinkOptions(40.0)
# bmv2 is slow: low link rates and a smaller model.
BMV2_LINK: Final = LinkOptions(10.0)
BMV2_TRAIN: Final = TrainOptions(hidden=512, batch=64, epochs=12)


def plan(results: Path, say: Say) -> Plan:
    """THC: oracles, codec, training on both switches, under impairment and malformed packets, packets per second."""
    runs = _ThcRuns(results, say)
    return Plan(
        "thc",
        {
            "THC oracles": _oracles,
            "codec": lambda: [shared.codec(codec_record(results))],
            "digits, soft switch": runs.plain,
            "impaired run": runs.impaired,
            "malformed packets": runs.malformed,
            "digits, bmv2": runs.bmv2,
            "packet tests on bmv2": packet_tests,
            "packets per second": lambda: _switch_rate(results, say),
        },
    )


class _ThcRuns:
    """The training runs. The first, on good links, is what the impaired and the flooded one are compared with."""

    def __init__(self, results: Path, say: Say) -> None:
        self._results = results
        self._say = say
        self._systems: dict[str, dict[str, Any]] = {}

    def plain(self) -> list[Check]:
        summary = self._run(RunOptions(switch="soft"))
        self._systems = summary["systems"]
        label = "digits, soft switch"
        return [*shared.speed(summary, label), shared.accuracy(label, self._systems["thc"], self._systems["gloo"])]

    def impaired(self) -> list[Check]:
        thc = self._thc(RunOptions(switch="soft", impair=IMPAIR))
        return impaired_checks(thc, self._first("gloo"), IMPAIR)

    def malformed(self) -> list[Check]:
        thc = self._thc(RunOptions(switch="soft", link=FLOODED, malformed=MALFORMED))
        return malformed_checks(thc, self._first("thc"), MALFORMED)

    def bmv2(self) -> list[Check]:
        label = "digits, bmv2"
        if shutil.which(BMV2) is None:
            return [absent(f"{label}: accuracy", "as on the soft switch", f"{BMV2} is not on PATH")]
        options = RunOptions(switch="bmv2", link=BMV2_LINK, train=BMV2_TRAIN)
        summary = self._run(options)
        gloo, thc = summary["systems"]["gloo"], summary["systems"]["thc"]
        soft = self._thc(replace(options, switch="soft"))
        same = thc["fingerprints"] == soft["fingerprints"]
        return [
            *shared.speed(summary, label),
            shared.accuracy(label, thc, gloo),
            equal(f"{label}: parameters bit-equal to those after the soft switch's run", same, True),
        ]

    def _first(self, system: str) -> dict[str, Any]:
        if system not in self._systems:
            raise LabError("the plain run, which this check is compared with, did not come to its end")
        return self._systems[system]

    def _thc(self, options: RunOptions) -> dict[str, Any]:
        summary = self._run(replace(options, systems=("thc",)))
        thc: dict[str, Any] = summary["systems"]["thc"]
        return thc

    def _run(self, options: RunOptions) -> dict[str, Any]:
        summary, _ = run(options, self._results, self._say)
        return summary


def _oracles() -> list[Check]:
    from sumwire.codec.oracles import oracle_rows

    return oracle_checks(oracle_rows())


def _switch_rate(results: Path, say: Say) -> list[Check]:
    engine = switches.choose_engine("auto")
    contenders = [name for name in switch.present() if name in (engine, "bmv2")]
    command = SwitchCommand(contenders)
    measured = command.record(run_in_network(command, results, say))
    rates = measured["ops"]["thc"]["packets_per_second"]
    label = f"soft switch ({engine} engine), THC packets in over veth, against bmv2"
    return [shared.switch_rate(label, rates, engine, "bmv2", SWITCH_RATIO_MIN)]
