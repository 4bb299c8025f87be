# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-thc`: runs every check of the THC work that one machine can make, and says what holds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sumwire_lab import bench_switch, checks
from sumwire_lab.checks import Check
from sumwire_lab.errors import LabError
from sumwire_lab.options import RunOptions
from sumwire_lab.run import run
from sumwire_lab.session import Say
from sumwire_lab.switches import BMV2

IMPAIR: Final = "drop=0.01,dup=0.01,reorder=0.02,seed=7"
MALFORMED: Final = 100_000
_ROOT: Final = Path(__file__).resolve().parents[2]
_PACKET_TESTS: Final = "tests/packet"
_CODEC_SECONDS: Final = 300.0
_PACKET_TEST_SECONDS: Final = 900.0


def verify(results: Path, say: Say) -> list[Check]:
    """All checks; one that fails does not stop the others. Writes verify-thc.json. Raises KeyboardInterrupt."""
    results.mkdir(parents=True, exist_ok=True)
    done: list[Check] = []

    def add(label: str, make: Callable[[], list[Check]]) -> None:
        say(f"== {label}")
        try:
            fresh = make()
        except (LabError, OSError, subprocess.SubprocessError) as error:
            fresh = [checks.failed(label, "the experiment comes to its end", error)]
        done.extend(fresh)
        say(checks.table(fresh))
        text = json.dumps([check.as_dict() for check in done], indent=1)
        (results / "verify-thc.json").write_text(text + "\n")

    runs = _Runs(results, say)
    add("THC oracles", _oracles)
    add("codec", lambda: _codec(results))
    add("digits, soft switch", runs.plain)
    add("impaired run", runs.impaired)
    add("malformed packets", runs.malformed)
    add("digits, bmv2", runs.bmv2)
    add("packet tests on bmv2", _packet_tests)
    add("packets per second", lambda: _switch_rate(results, say))
    return done


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
        thc = self._thc(RunOptions(switch="soft", malformed=MALFORMED))
        return checks.malformed(thc, self._first("thc"), MALFORMED)

    def bmv2(self) -> list[Check]:
        label = "digits, bmv2"
        if shutil.which(BMV2) is None:
            return [checks.absent(f"{label}: accuracy", "as on the soft switch", f"{BMV2} is not on PATH")]
        thc, soft = self._thc(RunOptions(switch="bmv2")), self._first("thc")
        same = thc["fingerprints"] == soft["fingerprints"]
        gloo = self._first("gloo")
        return [
            *checks.speed({"systems": {"gloo": gloo, "thc": thc}}, label),
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


def _codec(results: Path) -> list[Check]:
    record = results / "bench-codec.json"
    # Its exit code says whether its own target held; the number is judged here.
    subprocess.run(
        [sys.executable, "-m", "sumwire.bench_codec", "--values", "1000000", "--json", str(record)],
        check=False,
        capture_output=True,
        timeout=_CODEC_SECONDS,
    )
    return [checks.codec(json.loads(record.read_text())["median_ms"])]


def _packet_tests() -> list[Check]:
    label, target = "every packet test on bmv2", "green"
    if shutil.which(BMV2) is None:
        return [checks.absent(label, target, f"{BMV2} is not on PATH")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "bmv2", "--require-bmv2", _PACKET_TESTS],
        cwd=_ROOT,
        env={**os.environ, "SWITCH": "bmv2"},
        check=False,
        capture_output=True,
        text=True,
        timeout=_PACKET_TEST_SECONDS,
    )
    last = done.stdout.strip().splitlines()[-1:] or ["(no output)"]
    return [Check(label, last[0], target, done.returncode == 0)]


def _switch_rate(results: Path, say: Say) -> list[Check]:
    kinds = ["soft", "bmv2"] if shutil.which(BMV2) else ["soft"]
    return [checks.switch_rate(bench_switch.bench(kinds, results, say))]
