# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-speed`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sumwire_lab.bench.command import run_in_network
from sumwire_lab.bench.commands import switch as bench_switch
from sumwire_lab.bench.commands.allreduce import AllReduceCommand
from sumwire_lab.bench.commands.switch import SwitchCommand
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.run.training_run import run
from sumwire_lab.verify.check import Check
from sumwire_lab.verify.plan import Plan
from sumwire_lab.verify.processes import codec_ms
from sumwire_lab.verify.rows import shared
from sumwire_lab.verify.rows import speed as rows
from sumwire_lab.verify.rows.speed import SETTINGS, Setting


def plan(results: Path, say: Say) -> Plan:
    """Speed: packets per second of the switches, all-reduce against gloo, the codec, and `make run` as it is."""
    return Plan(
        "speed",
        {
            "packets per second": lambda: _rates(results, say),
            **{f"all-reduce, {one.name}": partial(_all_reduce, one, results, say) for one in SETTINGS},
            "codec": lambda: [shared.codec(codec_ms(results), rows.CODEC_MS_MAX)],
            "make run": lambda: _run(results, say),
        },
    )


def _rates(results: Path, say: Say) -> list[Check]:
    command = SwitchCommand(bench_switch.present())
    return rows.rates(command.record(run_in_network(command, results, say))["ops"]["thc"])


def _all_reduce(setting: Setting, results: Path, say: Say) -> list[Check]:
    done = run_in_network(AllReduceCommand([setting.values], [setting.link_mbit], RunOptions()), results, say)
    return rows.all_reduce(setting, done)


def _run(results: Path, say: Say) -> list[Check]:
    """As `make run` without options does it."""
    summary, _ = run(RunOptions(), results, say)
    systems = summary["systems"]
    return [
        *rows.engine(summary),
        *shared.speed(summary, "make run"),
        shared.accuracy("make run", systems["thc"], systems["gloo"]),
    ]
