# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-thc`: runs every check of the THC work that one machine can make, and says what holds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sumwire_lab.bench.commands import switch as bench_switch
from sumwire_lab.errors import LabError
from sumwire_lab.network import switches
from sumwire_lab.network.switches import BMV2
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.run.training_run import run
from sumwire_lab.verify.plan import Verification, codec_ms, packet_tests
from sumwire_lab.verify.rows import thc as checks
from sumwire_lab.verify.rows.thc import Check

IMPAIR: Final = "drop=0.01,dup=0.01,reorder=0.02,seed=7"
MALFORMED: Final = 100_000
# Links on which the training outlasts the malformed packets. What it learns does not depend on the rate.
FLOODED: Final = LinkOptions(40.0)
# Links that are slow enough for bmv2, and a model for them.
BMV2_LINK: Final = LinkOptions(10.0)
BMV2_TRAIN: Final = TrainOptions(hidden=512, batch=64, epochs=12)


def verify(results: Path, say: Say) -> list[Check]:
    """All checks; one that fails does not stop the others. Writes verify-thc.json. Raises KeyboardInterrupt."""
    rows = Verification(results / "verify-thc.json", say)
    runs = _Runs(results, say)
    rows.add("THC oracles", _oracles)
    rows.add("codec", lambda: [checks.codec(codec_ms(results))])
    rows.add("digits, soft switch", runs.plain)
    rows.add("impaired run", runs.impaired)
    rows.add("malformed packets", runs.malformed)
    rows.add("digits, bmv2", runs.bmv2)
    rows.add("packet tests on bmv2", packet_tests)
    rows.add("packets per second", lambda: _switch_rate(results, say))
    return rows.done


class _Runs:
    """The training runs; later ones are compared with the first."""

    def __init__(self, results: Path, say: Say) -> None:
        self._results = results
        self._say = say
        self._systems: dict[str, dict[str, Any]] = {}

    def plain(self) -> list[Check]:
        summary = self._run(RunOptions(switch="soft"))
        self._systems = summary["systems"]
        label = "digits, soft switch"
        return [*checks.speed(summary, label), checks.accuracy(label, self._systems["thc"], self._systems["gloo"])]

    def impaired(self) -> list[Check]:
        thc = self._thc(RunOptions(switch="soft", impair=IMPAIR))
        return checks.impaired(thc, self._first("gloo"), IMPAIR)

    def malformed(self) -> list[Check]:
        thc = self._thc(RunOptions(switch="soft", link=FLOODED, malformed=MALFORMED))
        return checks.malformed(thc, self._first("thc"), MALFORMED)

    def bmv2(self) -> list[Check]:
        label = "digits, bmv2"
        if shutil.which(BMV2) is None:
            return [checks.absent(f"{label}: accuracy", "as on the soft switch", f"{BMV2} is not on PATH")]
        options = RunOptions(switch="bmv2", link=BMV2_LINK, train=BMV2_TRAIN)
        summary = self._run(options)
        gloo, thc = summary["systems"]["gloo"], summary["systems"]["thc"]
        soft = self._thc(replace(options, switch="soft"))
        same = thc["fingerprints"] == soft["fingerprints"]
        return [
            *checks.speed(summary, label),
            checks.accuracy(label, thc, gloo),
            Check(f"{label}: parameters bit-equal to those after the soft switch's run", same, "true", same),
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

    return checks.oracles(oracle_rows())


def _switch_rate(results: Path, say: Say) -> list[Check]:
    engine = switches.choose_engine("auto")
    contenders = [name for name in bench_switch.present() if name in (engine, "bmv2")]
    rates = bench_switch.bench(contenders, results, say)["ops"]["thc"]["packets_per_second"]
    label = f"soft switch ({engine} engine), THC packets in over veth, against bmv2"
    return [checks.switch_rate(label, rates, engine, "bmv2", checks.SWITCH_RATIO_MIN)]
