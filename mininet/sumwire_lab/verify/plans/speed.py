# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-speed`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from sumwire_lab.bench.command import run_here, run_in_network
from sumwire_lab.bench.commands import switch as bench_switch
from sumwire_lab.bench.commands.allreduce import AllReduceCommand
from sumwire_lab.bench.commands.switch import SwitchCommand
from sumwire_lab.bench.commands.turns import TurnsCommand
from sumwire_lab.options.run_options import RunOptions, TrainOptions
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Plan
from sumwire_lab.verify.processes import aggregator_us, codec_record, without_bmv2
from sumwire_lab.verify.rows import shared
from sumwire_lab.verify.rows import speed as rows
from sumwire_lab.verify.rows.speed import SETTINGS, Setting

# Of each system; so many that the median is that of the next run too.
REPEATS: Final = 9
# Small tensors differ more from one time to the next, and a twentieth is to be seen.
SMALL_REPEATS: Final = 200
# bmv2 needs no whole training to show what a step takes.
BMV2_STEPS: Final = 30


def plan(results: Path, say: Say) -> Plan:
    """Speed: packets per second of the switches, all-reduce against gloo from small tensors to large ones, between
    hosts and on one machine, aggregator, codec, and `make run` as it is."""
    return Plan(
        "speed",
        {
            "packets per second": lambda: _rates(results, say),
            **{f"all-reduce, {one.name}": partial(_all_reduce, one, results, say) for one in SETTINGS},
            **{f"small tensors, {rate:g} Mbit/s": partial(_small, rate, results, say) for rate in rows.SMALL_RATES},
            "four ranks on one machine": lambda: _loopback(say),
            "software aggregator": lambda: rows.aggregator(aggregator_us(results)),
            "codec": lambda: [shared.codec(codec_record(results))],
            "make run": lambda: _run(results, say),
            "make run SWITCH=bmv2": lambda: _run_bmv2(results, say),
        },
    )


def _rates(results: Path, say: Say) -> list[Check]:
    command = SwitchCommand(bench_switch.present())
    return rows.rates(command.record(run_in_network(command, results, say))["ops"]["thc"])


def _all_reduce(setting: Setting, results: Path, say: Say) -> list[Check]:
    command = AllReduceCommand([setting.values], [setting.link_mbit], RunOptions(), repeats=REPEATS)
    return rows.all_reduce(setting, run_in_network(command, results, say))


def _small(link_mbit: float, results: Path, say: Say) -> list[Check]:
    command = TurnsCommand(rows.SMALL_SIZES, [link_mbit], ["auto"], SMALL_REPEATS)
    return rows.small_tensors(link_mbit, run_in_network(command, results, say))


def _loopback(say: Say) -> list[Check]:
    command = TurnsCommand([rows.LOOPBACK_VALUES], [None], ["thc", "auto"], repeats=rows.LOOPBACK_REPEATS)
    return rows.loopback(run_here(command, say))


def _run(results: Path, say: Say) -> list[Check]:
    """As `make run` without options does it."""
    summary, _ = run(RunOptions(), results, say)
    systems = summary["systems"]
    return [
        *rows.engine(summary),
        *shared.speed(summary, "make run"),
        shared.accuracy("make run", systems["thc"], systems["gloo"]),
    ]


def _run_bmv2(results: Path, say: Say) -> list[Check]:
    without = without_bmv2(rows.BMV2_RUN, f">= {rows.BMV2_RUN_MIN:g}")
    if without:
        return without
    summary, _ = run(RunOptions(switch="bmv2", train=TrainOptions(max_steps=BMV2_STEPS)), results, say)
    return rows.bmv2_run(summary)
