# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: `sumwire-lab run|...`. The only place of the lab that prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sumwire_protocol.version import __version__

from sumwire_lab.errors import LabError
from sumwire_lab.options.conditions import Conditions, OfHost
from sumwire_lab.options.priority_lanes import DEGRADE_MODES, DIVISORS, Degrade, LanedOptions
from sumwire_lab.options.recipes import ALL_SYSTEMS, SYSTEMS, named
from sumwire_lab.options.run_options import ENGINES, SWITCHES, LinkOptions, RunOptions, TrainOptions
from sumwire_lab.options.shapes import TOPOLOGIES
from sumwire_lab.options.tasks import DEFAULT_TASK, TASKS

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
_SWITCH_HELP: Final = "%(default)s; auto: bmv2 if on PATH, else soft; aggregator: a server instead"


def say(line: str) -> None:
    print(line, flush=True)


def parser() -> argparse.ArgumentParser:
    """All commands and options."""
    top = argparse.ArgumentParser(prog="sumwire-lab", description="Experiments with Sumwire in Mininet; needs root.")
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train with gloo and through the switch, and compare")
    _run_options(run)
    allreduce = commands.add_parser("bench-allreduce", help="seconds of one all-reduce, gloo against Sumwire")
    allreduce.add_argument("--sizes", default="100k,1M", help="float32 values, %(default)s")
    allreduce.add_argument("--bw", default="10,100", help="link rates in Mbit/s, %(default)s")
    allreduce.add_argument("--systems", default="gloo,thc,sign", help="in this order, %(default)s")
    allreduce.add_argument("--workers", type=int, default=RunOptions().workers, help="hosts, %(default)s")
    allreduce.add_argument("--switch", choices=SWITCHES, default=RunOptions().switch, help=_SWITCH_HELP)
    _engine_option(allreduce)
    _results_option(allreduce)
    switch = commands.add_parser("bench-switch", help="packets per second into each switch")
    switch.add_argument("--ops", default="thc", help="thc, max32, sum32, sign, vote, several with commas, or all")
    switch.add_argument("--switches", help="native, python, bmv2, several with commas; default: those that are here")
    _results_option(switch)
    _bench_options(commands.add_parser("bench", help="compare all systems, on one page"))
    _results_option(commands.add_parser("verify-thc", help="run the checks of the THC work and say what holds"))
    _results_option(commands.add_parser("verify-sign", help="run the checks of sign bits and trees, say what holds"))
    _results_option(commands.add_parser("verify-speed", help="run the checks of engine and hosts and say what holds"))
    _results_option(commands.add_parser("verify-acp", help="run the checks of ACP-SGD and baselines, say what holds"))
    _results_option(commands.add_parser("verify-dlcp", help="run the checks of tagged packets and say what holds"))
    commands.add_parser("clean", help="remove what crashed runs left")
    return top


def _run_options(run: argparse.ArgumentParser) -> None:
    link, all_ = LinkOptions(), RunOptions()
    run.add_argument("--workers", type=int, default=all_.workers, help="hosts, %(default)s")
    run.add_argument("--bw", type=float, default=link.mbit, help="link rate in Mbit/s, %(default)s")
    run.add_argument("--queue", type=int, default=link.queue_packets, help="packets a link's queue holds, %(default)s")
    run.add_argument("--task", choices=tuple(TASKS), default=DEFAULT_TASK, help="what to train, %(default)s")
    run.add_argument("--epochs", type=int, help=f"passes over the data; {_of_tasks('epochs')}")
    run.add_argument("--steps", type=int, help=f"end after so many steps; {_of_tasks('max_steps')}")
    run.add_argument("--batch", type=int, help=f"samples per worker and step; {_of_tasks('batch')}")
    run.add_argument("--hidden", type=int, help=f"units of a hidden layer, or a width; {_of_tasks('hidden')}")
    run.add_argument("--rank", type=int, help=f"of the low-rank systems; {_of_tasks('rank')}")
    run.add_argument("--share", type=float, help=f"of the values, what topk sends, {TrainOptions().share}")
    run.add_argument("--seed", type=int, default=TrainOptions().seed, help="%(default)s")
    known = f"of {', '.join(SYSTEMS)}, with @switch or @group; all: {', '.join(ALL_SYSTEMS)}"
    run.add_argument(
        "--systems", default=",".join(all_.systems), help=f"which to train, in this order: %(default)s; {known}"
    )
    run.add_argument("--topology", choices=TOPOLOGIES, default=all_.topology, help="%(default)s")
    run.add_argument("--switch", choices=SWITCHES, default=all_.switch, help=_SWITCH_HELP)
    _engine_option(run)
    run.add_argument("--impair", help="impair the soft switch's ports, as drop=0.01,dup=0.01,reorder=0.02,seed=7")
    run.add_argument("--malformed", type=int, default=0, help="malformed packets sent at the switch during the run")
    _condition_options(run)
    _laned_options(run)
    run.add_argument("--deadline", type=float, default=all_.deadline_s, help="seconds the run may take, %(default)s")
    _results_option(run)


def _condition_options(run: argparse.ArgumentParser) -> None:
    """Of the links, and what all systems have to bear."""
    run.add_argument("--trunk-bw", type=float, help="rate of links between switches, Mbit/s; default: as --bw")
    run.add_argument("--loss", type=float, default=0.0, help="share of packets that every link loses, each direction")
    run.add_argument("--gray", metavar="HOST:SHARE", help="one host's link loses this share, as 2:0.01")
    run.add_argument("--background", type=float, default=0.0, help="share of every link that other TCP flows ask for")
    run.add_argument(
        "--incast", type=int, default=0, metavar="KB", help="twice a second all hosts send h1 so many kB at once"
    )
    run.add_argument("--slow", metavar="HOST:FACTOR", help="one worker's computing takes so many times as long: 3:3")


def _laned_options(run: argparse.ArgumentParser) -> None:
    """Of system dlcp."""
    own = LanedOptions()
    run.add_argument("--lanes", type=int, default=own.lanes, help="dlcp: priority classes of tensors, %(default)s")
    run.add_argument("--quorum", type=int, help="dlcp: workers whose packets close a slot; default: all")
    run.add_argument(
        "--loss-bound", type=float, default=own.loss_bound, help="dlcp: share of a tensor that may miss, %(default)s"
    )
    run.add_argument("--divisor", choices=DIVISORS, default=own.divisor, help="dlcp: of sums, %(default)s")
    run.add_argument("--degrade", metavar="MODE:SHARE", help=f"dlcp: the switch does {', '.join(DEGRADE_MODES)}")
    run.add_argument("--no-queues", action="store_true", help="dlcp: without the P4 switches' virtual queues")


def _laned(arguments: argparse.Namespace) -> LanedOptions:
    return LanedOptions(
        lanes=arguments.lanes,
        quorum=arguments.quorum,
        loss_bound=arguments.loss_bound,
        divisor=arguments.divisor,
        queues=not arguments.no_queues,
        degrade=None if arguments.degrade is None else Degrade.parse(arguments.degrade, arguments.seed),
    )


def _conditions(arguments: argparse.Namespace) -> Conditions:
    return Conditions(
        loss=arguments.loss,
        gray=None if arguments.gray is None else OfHost.parse("gray", arguments.gray),
        background=arguments.background,
        incast_kb=arguments.incast,
        slow=None if arguments.slow is None else OfHost.parse("slow", arguments.slow),
    )


def _bench_options(bench: argparse.ArgumentParser) -> None:
    from sumwire_lab.bench.options import SUITES

    bench.add_argument("--suites", default="all", help=f"with commas, of {', '.join(SUITES)}; %(default)s")
    bench.add_argument("--quick", action="store_true", help="minutes: fewer sizes, rates, systems, steps")
    bench.add_argument("--switch", choices=SWITCHES, default=RunOptions().switch, help=_SWITCH_HELP)
    bench.add_argument("--seed", type=int, default=1, help="%(default)s")
    _engine_option(bench)
    _results_option(bench)


def _of_tasks(name: str) -> str:
    """The tasks' own values of an option."""
    return ", ".join(f"{task.name} {'-' if (own := getattr(task, name)) is None else own}" for task in TASKS.values())


def _engine_option(command: argparse.ArgumentParser) -> None:
    text = "the soft switch's, %(default)s: native where there is a compiler"
    command.add_argument("--engine", choices=ENGINES, default="auto", help=text)


def _results_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--results", type=Path, default=Path("results"), help="folder of results, %(default)s")


def run_options(arguments: argparse.Namespace) -> RunOptions:
    """Raises OptionError."""
    return RunOptions(
        workers=arguments.workers,
        link=LinkOptions(arguments.bw, arguments.queue, arguments.trunk_bw),
        train=TrainOptions.of(
            arguments.task,
            epochs=arguments.epochs,
            batch=arguments.batch,
            hidden=arguments.hidden,
            seed=arguments.seed,
            max_steps=arguments.steps,
            rank=arguments.rank,
            share=arguments.share,
        ),
        systems=named(arguments.systems),
        topology=arguments.topology,
        switch=arguments.switch,
        engine=arguments.engine,
        impair=arguments.impair,
        malformed=arguments.malformed,
        conditions=_conditions(arguments),
        laned=_laned(arguments),
        deadline_s=arguments.deadline,
    )


def _run(arguments: argparse.Namespace) -> int:
    options = run_options(arguments)
    from sumwire_lab.run import report
    from sumwire_lab.run.training_run import run

    summary, folder = run(options, arguments.results, say)
    say("")
    say(report.table(summary))
    say(f"\n{folder / 'report.html'}")
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    from sumwire_lab.bench.options import BenchOptions, parse_suites

    options = BenchOptions(
        quick=arguments.quick,
        suites=parse_suites(arguments.suites),
        switch=arguments.switch,
        engine=arguments.engine,
        seed=arguments.seed,
    )
    from sumwire_lab.bench import runner

    done, folder = runner.bench(options, arguments.results, say)
    say("\n" + runner.tables_text(done))
    say(f"\n{folder / runner.PAGE}")
    return EXIT_FAILED if any(outcome.failures for outcome in done) else 0


def _bench_allreduce(arguments: argparse.Namespace) -> int:
    from sumwire_lab.bench.commands import allreduce as bench

    sizes, rates = bench.parse_sizes(arguments.sizes), bench.parse_rates(arguments.bw)
    systems = bench.parse_systems(arguments.systems)
    options = RunOptions(workers=arguments.workers, switch=arguments.switch, engine=arguments.engine)
    done = bench.bench(sizes, rates, options, arguments.results, say, systems=systems)
    say("\n" + bench.table(done))
    return 0


def _bench_switch(arguments: argparse.Namespace) -> int:
    from sumwire_lab.bench.commands import switch as bench_switch

    ops = bench_switch.parse_ops(arguments.ops)
    contenders = arguments.switches.split(",") if arguments.switches else bench_switch.present()
    record = bench_switch.bench(contenders, arguments.results, say, ops)
    say("\n" + bench_switch.table(record))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from sumwire_lab.verify.check import table
    from sumwire_lab.verify.commands import verify

    done = verify(arguments.command.removeprefix("verify-"), arguments.results, say)
    say("\n" + table(done))
    return EXIT_FAILED if any(check.holds is False for check in done) else 0


def _clean(arguments: argparse.Namespace) -> int:
    from sumwire_lab.system import leftovers

    for line in leftovers.clean():
        say(f"removed {line}")
    return 0


_COMMANDS: Final[dict[str, Any]] = {
    "run": _run,
    "bench": _bench,
    "bench-allreduce": _bench_allreduce,
    "bench-switch": _bench_switch,
    "verify-thc": _verify,
    "verify-sign": _verify,
    "verify-speed": _verify,
    "verify-acp": _verify,
    "verify-dlcp": _verify,
    "clean": _clean,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, 1 for a failed experiment, 2 for wrong options, 130 after Ctrl-C."""
    arguments = parser().parse_args(argv)
    try:
        code: int = _COMMANDS[arguments.command](arguments)
    except ValueError as error:
        if not isinstance(error, LabError):
            raise
        print(f"sumwire-lab: {error}", file=sys.stderr)
        return EXIT_USAGE
    except LabError as error:
        print(f"sumwire-lab: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("sumwire-lab: interrupted, everything is cleaned up", file=sys.stderr)
        return EXIT_INTERRUPTED
    return code
