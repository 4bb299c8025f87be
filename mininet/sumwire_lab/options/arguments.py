# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: commands, and the flags of each."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from commonlib import logs
from commonlib.version import __version__

from sumwire_lab.options.bench_options import (
    Ablation,
    AcpBenchOptions,
    AggregatorOptions,
    AllReduceOptions,
    BenchOptions,
    CodecBenchOptions,
    InterleavedOptions,
    RatesOptions,
    SwitchBenchOptions,
    ThcOptions,
    Variant,
    WhereOptions,
    thc_options,
)
from sumwire_lab.options.fields import add_flags, from_arguments
from sumwire_lab.options.recipes import settings_class
from sumwire_lab.options.run_options import RunOptions, ScriptOptions
from sumwire_lab.options.simulate_options import SimulateOptions
from sumwire_lab.options.verify_options import TOPICS, VerifyOptions, present


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and options."""
    top = argparse.ArgumentParser(prog="sumwire-lab", description="Experiments with Sumwire in Mininet; needs root.")
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    logs.add_option(top)
    commands = top.add_subparsers(dest="command", required=True)
    _run_options(commands.add_parser("run", help="train with gloo and through the switch, and compare"))
    _study_options(commands.add_parser("study", help="measure the cases of a study in a file of your own"))
    _simulate_options(commands.add_parser("simulate", help="the same for large networks, in virtual time; no root"))
    bench = commands.add_parser("bench", help="measure speed, errors and costs").add_subparsers(
        dest="name", required=True, metavar="NAME"
    )
    for name, line in BENCHES.items():
        line.add(bench.add_parser(name, help=line.about))
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
    known = "two runs: what was set otherwise, and by what they differ; no root"
    _compare_options(commands.add_parser("compare", help=known))
    _models_options(commands.add_parser("models", help="search the protocol's models with Spin; no root"))
    commands.add_parser("down", help="take down labs that `run --keep` has left standing")
    commands.add_parser("clean", help="remove what crashed runs left")
    return top


def _study_options(study: argparse.ArgumentParser) -> None:
    study.add_argument("file", type=Path, help="Python file with a Study named `study`, or a grid of trainings in YAML")
    study.add_argument("--again", action="store_true", help="also the cases that are recorded already")
    _results_option(study)


def _simulate_options(simulate: argparse.ArgumentParser) -> None:
    known = "a study of docs/simulate.md, or a grid in YAML; without it, the simulation that the options describe"
    simulate.add_argument("study", nargs="?", help=known)
    simulate.add_argument("--again", action="store_true", help="also the cases of a study that are recorded already")
    add_flags(simulate, SimulateOptions)
    _results_option(simulate)


def _compare_options(compare: argparse.ArgumentParser) -> None:
    compare.add_argument("first", type=Path, metavar="A", help="folder of a run")
    compare.add_argument("second", type=Path, metavar="B", help="folder of another one")
    compare.add_argument("--html", type=Path, metavar="PATH", help="write a page there")


def _models_options(models: argparse.ArgumentParser) -> None:
    models.add_argument("--only", default="", help="models with commas; default: all")
    models.add_argument("--json", type=Path, metavar="PATH", help="write what was found there")


def _run_options(run: argparse.ArgumentParser) -> None:
    for group in (RunOptions, settings_class(), ScriptOptions):
        add_flags(run, group)
    run.add_argument("words", nargs="*", metavar="-- ARGUMENT", help="arguments of the script")
    known = "a page that follows the run, on the loopback address, at this port or any free one"
    run.add_argument("--live", nargs="?", type=int, const=0, metavar="PORT", help=known)
    _results_option(run)


# -- benchmarks ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BenchCommandLine:
    """A benchmark's command: its subject, its options, and the function (`module:function`) that makes or runs it.

    `alone`: it needs neither root nor a network, and writes a summary to the file given by `--json` instead of a
    folder.
    """

    about: str
    options: tuple[type, ...]
    command: str
    alone: bool = False

    @property
    def of_study(self) -> bool:
        """Whether the function makes a `Bench`. The other functions take a folder and run everything themselves."""
        return self.command.endswith(":bench")

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the benchmark's flags."""
        for group in self.options:
            add_flags(parser, group)
        if self.alone:
            parser.add_argument("--json", type=Path, help="write the summary here")
        else:
            _results_option(parser)

    def chosen(self, arguments: argparse.Namespace) -> Any:
        """Return the benchmark's options from the command line. Raises OptionError."""
        return thc_options(arguments) if ThcOptions in self.options else from_arguments(self.options[0], arguments)


_BENCH: Final = "sumwire_lab.bench."
BENCHES: Final[Mapping[str, BenchCommandLine]] = {
    "page": BenchCommandLine("compare all systems, on one page", (BenchOptions,), f"{_BENCH}runner:command"),
    "allreduce": BenchCommandLine(
        "seconds of one all-reduce, gloo against Sumwire", (AllReduceOptions,), f"{_BENCH}allreduce:bench"
    ),
    "interleaved": BenchCommandLine(
        "the same, gloo and Sumwire in turn; no root on loopback",
        (InterleavedOptions,),
        f"{_BENCH}interleaved:bench",
    ),
    "where": BenchCommandLine(
        "at which sizes and link rates Sumwire is faster than gloo", (WhereOptions,), f"{_BENCH}where.measure:command"
    ),
    "switch": BenchCommandLine("packets per second into each switch", (SwitchBenchOptions,), f"{_BENCH}switch:bench"),
    "codec": BenchCommandLine(
        "time of a codec's encode and decode on one core; no root",
        (CodecBenchOptions,),
        f"{_BENCH}codec_time:bench",
        alone=True,
    ),
    "aggregator": BenchCommandLine(
        "CPU time of a contribution in the software aggregator; no root",
        (AggregatorOptions,),
        f"{_BENCH}aggregator:bench",
        alone=True,
    ),
    "rates": BenchCommandLine(
        "time to accuracy at several link rates, as one picture", (RatesOptions,), f"{_BENCH}accuracy:bench"
    ),
    "thc": BenchCommandLine(
        "what each part of THC brings: error and accuracy by variant and workers; no root",
        (Ablation, ThcOptions, Variant),
        f"{_BENCH}thc_variants:bench",
        alone=True,
    ),
    "acp": BenchCommandLine(
        "what overlap and fusion bring by system, and buffer size and rank to ACP-SGD",
        (AcpBenchOptions,),
        f"{_BENCH}acp:bench",
    ),
}
"""The benchmarks by name."""


def _results_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--results", type=Path, default=Path("results"), help="folder of results, %(default)s")


# -- options from what was parsed ----------------------------------------------------------------------


def verify_options(arguments: argparse.Namespace) -> VerifyOptions:
    """Return the options of the command `verify`. Raises OptionError."""
    options = from_arguments(VerifyOptions, arguments, topic=arguments.topic)
    # Faults are tried with what is there. The doctor has a row for each switch, also for one that is missing.
    life = arguments.topic == "life" and arguments.switches in (None, "all")
    return replace(options, switches=present()) if life else options
