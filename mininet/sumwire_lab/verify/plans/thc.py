# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-thc`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sumwire_lab.bench.command import run_in_network
from sumwire_lab.bench.commands import switch as bench_switch
from sumwire_lab.bench.commands.switch import SwitchCommand
from sumwire_lab.errors import LabError
from sumwire_lab.network import switches
from sumwire_lab.network.switches import BMV2
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check, absent, equal
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Plan
from sumwire_lab.verify.processes import codec_record, packet_tests
from sumwire_lab.verify.rows import shared
from sumwire_lab.verify.rows import thc as rows

IMPAIR: Final = "drop=0.01,dup=0.01,reorder=0.02,seed=7"
MALFORMED: Final = 100_000
# A rate at which the training lasts longer than the malformed packets. Its result does not depend on the rate.
FLOODED: Final = LinkOptions(40.0)
# bmv2 is slow: low link rates and a smaller model.
BMV2_LINK: Final = LinkOptions(10.0)
BMV2_TRAIN: Final = TrainOptions(hidden=512, batch=64, epochs=12)


def plan(results: Path, say: Say) -> Plan:
    """THC: oracles, codec, training on both switches, under impairment and malformed packets, packets per second."""
    runs = _Runs(results, say)
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


class _Runs:
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
        return rows.impaired(thc, self._first("gloo"), IMPAIR)

    def malformed(self) -> list[Check]:
        thc = self._thc(RunOptions(switch="soft", link=FLOODED, malformed=MALFORMED))
        return rows.malformed(thc, self._first("thc"), MALFORMED)

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

    return rows.oracles(oracle_rows())


def _switch_rate(results: Path, say: Say) -> list[Check]:
    engine = switches.choose_engine("auto")
    contenders = [name for name in bench_switch.present() if name in (engine, "bmv2")]
    command = SwitchCommand(contenders)
    measured = command.record(run_in_network(command, results, say))
    rates = measured["ops"]["thc"]["packets_per_second"]
    label = f"soft switch ({engine} engine), THC packets in over veth, against bmv2"
    return [shared.switch_rate(label, rates, engine, "bmv2", rows.SWITCH_RATIO_MIN)]
