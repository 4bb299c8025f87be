# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the verify commands share: experiments one after the other, each row written at once; tests as rows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from sumwire_lab.errors import LabError
from sumwire_lab.network.switches import BMV2
from sumwire_lab.run.experiment import Say
from sumwire_lab.verify.rows import thc as checks
from sumwire_lab.verify.rows.thc import Check

ROOT: Final = Path(__file__).resolve().parents[3]
PACKET_TESTS: Final = "tests/packet"
_TESTS_SECONDS: Final = 900.0
_CODEC_SECONDS: Final = 300.0


class Verification:
    """Rows so far, in a JSON file that is written anew after each experiment."""

    def __init__(self, path: Path, say: Say) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._say = say
        self.done: list[Check] = []

    def add(self, label: str, make: Callable[[], list[Check]]) -> None:
        """One experiment. One that fails is a row that does not hold, and no end. Raises KeyboardInterrupt."""
        self._say(f"== {label}")
        try:
            fresh = make()
        except (LabError, OSError, subprocess.SubprocessError) as error:
            fresh = [checks.failed(label, "the experiment comes to its end", error)]
        self.done.extend(fresh)
        self._say(checks.table(fresh))
        text = json.dumps([check.as_dict() for check in self.done], indent=1)
        self._path.write_text(text + "\n")


def without_bmv2(label: str, target: str) -> list[Check]:
    """The row of a check that needs bmv2, where there is none; empty where there is."""
    return [] if shutil.which(BMV2) else [checks.absent(label, target, f"{BMV2} is not on PATH")]


def packet_tests() -> list[Check]:
    """Every packet test on bmv2."""
    label, target = "every packet test on bmv2", "green"
    absent = without_bmv2(label, target)
    if absent:
        return absent
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "bmv2", "--require-bmv2", PACKET_TESTS],
        cwd=ROOT,
        env={**os.environ, "SWITCH": "bmv2"},
        check=False,
        capture_output=True,
        text=True,
        timeout=_TESTS_SECONDS,
    )
    last = done.stdout.strip().splitlines()[-1:] or ["(no output)"]
    return [Check(label, last[0], target, done.returncode == 0)]


def codec_ms(results: Path) -> float:
    """CPU milliseconds of THC's encode and decode of a million values on one core. Writes bench-codec.json."""
    record = results / "bench-codec.json"
    # Its exit code says whether its own target held; the number is judged by who asked.
    subprocess.run(
        [sys.executable, "-m", "sumwire_lab.bench.commands.codec", "--values", "1000000", "--json", str(record)],
        check=False,
        capture_output=True,
        timeout=_CODEC_SECONDS,
    )
    return float(json.loads(record.read_text())["cpu_median_ms"])


def run_tests(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run pytest with these arguments. Returns the outcome of each test (passed, failed, skipped) by its name.

    Raises LabError where pytest itself comes to no end.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            check=False,
            capture_output=True,
            text=True,
            timeout=_TESTS_SECONDS,
        )
        if not report.exists():
            raise LabError(f"pytest {' '.join(arguments)} ended with {done.returncode}: {done.stdout[-500:]}")
        return outcomes(report.read_text())


def outcomes(junit: str) -> dict[str, str]:
    """Name -> outcome, out of pytest's JUnit report."""
    bad = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    return {
        f"{case.get('classname')}::{case.get('name')}": next(
            (bad[child.tag] for child in case if child.tag in bad), "passed"
        )
        for case in ElementTree.fromstring(junit).iter("testcase")
    }
