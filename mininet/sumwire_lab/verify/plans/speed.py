# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-speed`: what the native engine, the batched hosts and the compiled codec promise, and what holds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sumwire_lab.bench.commands import allreduce as bench_allreduce
from sumwire_lab.bench.commands import switch as bench_switch
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.run.training_run import run
from sumwire_lab.verify.plan import Verification, codec_ms
from sumwire_lab.verify.rows import speed as speed_checks
from sumwire_lab.verify.rows import thc as checks
from sumwire_lab.verify.rows.speed import SETTINGS, Setting
from sumwire_lab.verify.rows.thc import Check


def verify(results: Path, say: Say) -> list[Check]:
    """All checks; one that fails does not stop the others. Writes verify-speed.json. Raises KeyboardInterrupt."""
    rows = Verification(results / "verify-speed.json", say)
    rows.add("packets per second", lambda: _rates(results, say))
    for setting in SETTINGS:
        rows.add(f"all-reduce, {setting.name}", partial(_all_reduce, setting, results, say))
    rows.add("codec", lambda: [speed_checks.codec(codec_ms(results))])
    rows.add("make run", lambda: _run(results, say))
    return rows.done


def _rates(results: Path, say: Say) -> list[Check]:
    return speed_checks.rates(bench_switch.bench(bench_switch.present(), results, say)["ops"]["thc"])


def _all_reduce(setting: Setting, results: Path, say: Say) -> list[Check]:
    done = bench_allreduce.bench([setting.values], [setting.link_mbit], RunOptions(), results, say)
    return speed_checks.all_reduce(setting, done)


def _run(results: Path, say: Say) -> list[Check]:
    """As `make run` does it without being told anything."""
    summary, _ = run(RunOptions(), results, say)
    systems = summary["systems"]
    return [
        *speed_checks.engine(summary),
        *checks.speed(summary, "make run"),
        checks.accuracy("make run", systems["thc"], systems["gloo"]),
    ]
