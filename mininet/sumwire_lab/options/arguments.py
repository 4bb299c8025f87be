# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: commands, and the flags of each."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from commonlib import logs
from commonlib.version import __version__

from sumwire_lab.options.bench_options import (
    ABLATIONS,
    AcpBenchOptions,
    AggregatorOptions,
    BenchOptions,
    CodecBenchOptions,
    RatesOptions,
    SwitchOptions,
    ThcOptions,
    Variant,
)
from sumwire_lab.options.fields import add_flags, from_arguments
from sumwire_lab.options.recipes import SYSTEM_OPS, settings_class
from sumwire_lab.options.run_options import RunOptions, ScriptOptions
from sumwire_lab.options.verify_options import TOPICS, VerifyOptions, present


def parser() -> argparse.ArgumentParser:
    """All commands and options."""
    top = argparse.ArgumentParser(prog="sumwire-lab", description="Experiments with Sumwire in Mininet; needs root.")
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    logs.add_option(top)
    commands = top.add_subparsers(dest="command", required=True)
    _run_options(commands.add_parser("run", help="train with gloo and through the switch, and compare"))
    study = commands.add_parser("study", help="measure the cases of a study in a file of your own")
    study.add_argument("file", type=Path, help="Python file with a Study named `study`, or a grid of trainings in YAML")
    study.add_argument("--again", action="store_true", help="also the cases that are recorded already")
    _results_option(study)
    bench = commands.add_parser("bench", help="measure speed, errors and costs").add_subparsers(
        dest="name", required=True, metavar="NAME"
    )
    for name, (about, add) in BENCHES.items():
        add(bench.add_parser(name, help=about))
    verify = commands.add_parser("verify", help="run the checks of a topic and say what holds").add_subparsers(
        dest="topic", required=True, metavar="TOPIC"
    )
    for name, topic in TOPICS.items():
        one = verify.add_parser(name, help=topic.about)
        add_flags(one, VerifyOptions, topic.flags)
        _results_option(one)
    replay = commands.add_parser("replay", help="make a recorded run again, with its settings and seed, and compare")
    replay.add_argument("folder", type=Path, help="of a run, as results/latest")
    _results_option(replay)
    compare = commands.add_parser("compare", help="two runs: what was set otherwise, and by what they differ; no root")
    compare.add_argument("first", type=Path, metavar="A", help="folder of a run")
    compare.add_argument("second", type=Path, metavar="B", help="folder of another one")
    compare.add_argument("--html", type=Path, metavar="PATH", help="write a page there")
    models = commands.add_parser("models", help="search the protocol's models with Spin; no root")
    models.add_argument("--only", default="", help="models with commas; default: all")
    models.add_argument("--json", type=Path, metavar="PATH", help="write what was found there")
    commands.add_parser("down", help="take down labs that `run --keep` has left standing")
    commands.add_parser("clean", help="remove what crashed runs left")
    return top


def _run_options(run: argparse.ArgumentParser) -> None:
    for group in (RunOptions, settings_class(), ScriptOptions):
        add_flags(run, group)
    run.add_argument("words", nargs="*", metavar="-- ARGUMENT", help="arguments of the script")
    known = "a page that follows the run, on the loopback address, at this port or any free one"
    run.add_argument("--live", nargs="?", type=int, const=0, metavar="PORT", help=known)
    _results_option(run)


# -- benchmarks ----------------------------------------------------------------------------------------


def _page_options(bench: argparse.ArgumentParser) -> None:
    add_flags(bench, BenchOptions)
    _results_option(bench)


def _allreduce_options(allreduce: argparse.ArgumentParser) -> None:
    allreduce.add_argument("--sizes", default="100k,1M", help="float32 values, %(default)s")
    allreduce.add_argument("--bw", default="10,100", help="link rates in Mbit/s, or unlimited, %(default)s")
    known = "also sum32, auto, asking"
    allreduce.add_argument("--systems", default="gloo,thc,sign", help=f"in this order, %(default)s; {known}")
    allreduce.add_argument("--workers", type=int, default=RunOptions().workers, help="hosts, %(default)s")
    add_flags(allreduce, SwitchOptions)
    _results_option(allreduce)


def _interleaved_options(turns: argparse.ArgumentParser) -> None:
    turns.add_argument("--sizes", default="5M", help="float32 values, %(default)s")
    turns.add_argument("--bw", default="loopback", help="loopback, or link rates in Mbit/s, or unlimited, %(default)s")
    turns.add_argument("--systems", default="thc,auto", help="each in turn with gloo, %(default)s")
    turns.add_argument("--workers", type=int, default=RunOptions().workers, help="%(default)s")
    turns.add_argument("--repeats", type=int, default=30, help="of each size, %(default)s")
    _results_option(turns)


def _where_options(where: argparse.ArgumentParser) -> None:
    where.add_argument("--quick", action="store_true", help="minutes: three sizes, three rates")
    where.add_argument("--sizes", help="float32 values; default: 1k to 100M in steps of 10")
    where.add_argument(
        "--bw", help="link rates in Mbit/s, or unlimited; default: 10 to 10000 in steps of 10, unlimited"
    )
    where.add_argument("--systems", default="thc,sign,sum32", help="beside gloo, %(default)s")
    where.add_argument("--switches", help="soft, aggregator, bmv2, several with commas; default: those that are here")
    where.add_argument("--workers", type=int, default=RunOptions().workers, help="hosts, %(default)s")
    where.add_argument("--budget", type=float, default=60.0, help="seconds that a cell may take, %(default)s")
    where.add_argument("--record", type=Path, help="the record; default: RESULTS/bench-where.json")
    where.add_argument("--resume", action="store_true", help="measure only what the record does not have")
    where.add_argument("--draw", action="store_true", help="measure nothing; picture and tables from the record")
    where.add_argument("--page", type=Path, help="put the tables into this page, and the picture into its images/")
    _results_option(where)


def _switch_options(switch: argparse.ArgumentParser) -> None:
    switch.add_argument(
        "--ops", default="thc", help=f"{', '.join(op.name for op in SYSTEM_OPS)}, several with commas, or all"
    )
    switch.add_argument("--switches", help="native, python, bmv2, several with commas; default: those that are here")
    _results_option(switch)


def _codec_options(codec: argparse.ArgumentParser) -> None:
    add_flags(codec, CodecBenchOptions)
    _json_option(codec)


def _aggregator_options(aggregator: argparse.ArgumentParser) -> None:
    add_flags(aggregator, AggregatorOptions)
    _json_option(aggregator)


def _rates_options(rates: argparse.ArgumentParser) -> None:
    add_flags(rates, RatesOptions)
    rates.add_argument("--bw", default="10,25,50,100", help="link rates in Mbit/s, %(default)s")
    _results_option(rates)


def _acp_options(acp: argparse.ArgumentParser) -> None:
    add_flags(acp, AcpBenchOptions)
    _results_option(acp)


def _thc_options(thc: argparse.ArgumentParser) -> None:
    thc.add_argument("--ablation", action="store_true", help=f"each of {', '.join(ABLATIONS)}")
    add_flags(thc, ThcOptions)
    add_flags(thc, Variant)
    _json_option(thc)


BENCHES: Final[Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]]] = {
    "page": ("compare all systems, on one page", _page_options),
    "allreduce": ("seconds of one all-reduce, gloo against Sumwire", _allreduce_options),
    "interleaved": ("the same, gloo and Sumwire in turn; no root on loopback", _interleaved_options),
    "where": ("at which sizes and link rates Sumwire is faster than gloo", _where_options),
    "switch": ("packets per second into each switch", _switch_options),
    "codec": ("time of a codec's encode and decode on one core; no root", _codec_options),
    "aggregator": ("CPU time of a contribution in the software aggregator; no root", _aggregator_options),
    "rates": ("time to accuracy at several link rates, as one picture", _rates_options),
    "thc": ("what each part of THC brings: error and accuracy by variant and workers; no root", _thc_options),
    "acp": ("what overlap and fusion bring by system, and buffer size and rank to ACP-SGD", _acp_options),
}
"""What each benchmark measures, and its flags."""


def _json_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", type=Path, help="write the summary here")


def _results_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--results", type=Path, default=Path("results"), help="folder of results, %(default)s")


# -- options from what was parsed ----------------------------------------------------------------------


def verify_options(arguments: argparse.Namespace) -> VerifyOptions:
    """Options of the command `verify`. Raises OptionError."""
    options = from_arguments(VerifyOptions, arguments, topic=arguments.topic)
    # Faults are tried with what is there. The doctor has a row for each switch, also for one that is missing.
    life = arguments.topic == "life" and arguments.switches in (None, "all")
    return replace(options, switches=present()) if life else options
