# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: its parser, and from parsed arguments to options."""

from __future__ import annotations

import argparse
from dataclasses import fields
from math import inf
from pathlib import Path
from typing import Final

from sumwire_protocol import constants as p4
from sumwire_protocol.logs import forms
from sumwire_protocol.ops import CODES
from sumwire_protocol.tables import KINDS
from sumwire_protocol.version import __version__

from sumwire_lab.errors import OptionError
from sumwire_lab.options.acp_options import PARTS, AcpOptions
from sumwire_lab.options.bench_options import (
    CODECS,
    DEVICES,
    SUITES,
    AggregatorOptions,
    BenchOptions,
    CodecOptions,
    parse_suites,
)
from sumwire_lab.options.faithful_options import GROUPS, FaithfulOptions
from sumwire_lab.options.fields import add_flags
from sumwire_lab.options.life_options import BMV2_SEEDS, ROWS, SEEDS, LifeOptions, parse_names, present
from sumwire_lab.options.life_options import SWITCHES as LIFE_SWITCHES
from sumwire_lab.options.papers_options import PAPERS, PapersOptions
from sumwire_lab.options.recipes import DEFAULT_TASK, SYSTEM_OPS, SYSTEMS, TASKS, named, settings_class
from sumwire_lab.options.run_options import ENGINES, SWITCHES, RunOptions, ScriptOptions
from sumwire_lab.options.see_options import ROWS as SEE_ROWS
from sumwire_lab.options.see_options import SeeOptions
from sumwire_lab.options.thc_variants import ABLATIONS, BLOCK, GLOBAL, MINMAX, NORM, THC, ThcOptions, Variant
from sumwire_lab.options.trust_options import ROWS as TRUST_ROWS
from sumwire_lab.options.trust_options import TrustOptions
from sumwire_lab.options.ways_options import WAYS, WaysOptions

_SWITCH_HELP: Final = "%(default)s; auto: bmv2 if on PATH, else soft; aggregator: a server instead"
TOPICS: Final = {
    "thc": "run the checks of the THC work and say what holds",
    "sign": "run the checks of sign bits and trees, say what holds",
    "speed": "run the checks of speed and say what holds",
    "acp": "run the checks of ACP-SGD and baselines, say what holds",
    "dlcp": "run the checks of tagged packets and say what holds",
}
"""What a command verify-TOPIC does."""


def parser() -> argparse.ArgumentParser:
    """All commands and options."""
    top = argparse.ArgumentParser(prog="sumwire-lab", description="Experiments with Sumwire in Mininet; needs root.")
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    forms.add_option(top)
    commands = top.add_subparsers(dest="command", required=True)
    _run_options(commands.add_parser("run", help="train with gloo and through the switch, and compare"))
    _bench_options(commands.add_parser("bench", help="compare all systems, on one page"))
    _allreduce_options(commands.add_parser("bench-allreduce", help="seconds of one all-reduce, gloo against Sumwire"))
    about = "seconds of one all-reduce, gloo and Sumwire in turn; no root on loopback"
    _turns_options(commands.add_parser("bench-turns", help=about))
    _where_options(commands.add_parser("bench-where", help="at which sizes and link rates Sumwire is faster than gloo"))
    _switch_options(commands.add_parser("bench-switch", help="packets per second into each switch"))
    _codec_options(commands.add_parser("bench-codec", help="time of a codec's encode and decode on one core; no root"))
    about = "CPU time of a contribution in the software aggregator; no root"
    _aggregator_options(commands.add_parser("bench-aggregator", help=about))
    _rates_options(commands.add_parser("bench-rates", help="time to accuracy at several link rates, as one picture"))
    about = "what each part of THC brings: error and accuracy by variant and number of workers; no root"
    _thc_options(commands.add_parser("bench-thc", help=about))
    about = "what overlap and fusion bring by system, and what buffer size and rank do to ACP-SGD"
    _acp_options(commands.add_parser("bench-acp", help=about))
    for topic, text in TOPICS.items():
        _results_option(commands.add_parser(f"verify-{topic}", help=text))
    _life_options(commands.add_parser("verify-life", help="disturb runs as real life does, and say what holds"))
    _trust_options(commands.add_parser("verify-trust", help="attack jobs, switches and files, and say what holds"))
    _papers_options(
        commands.add_parser("verify-papers", help="check what readers of the papers expect, paper by paper")
    )
    _ways_options(commands.add_parser("verify-ways", help="check the ways in: from a wheel to a training"))
    _see_options(commands.add_parser("verify-see", help="check what shows packets, and the doctor"))
    _faithful_options(commands.add_parser("verify-faithful", help="check P4 programs and P4Runtime clients of others"))
    _models_options(commands.add_parser("models", help="search the protocol's models with Spin; no root"))
    study = commands.add_parser("study", help="measure the cases of a study in a file of your own")
    study.add_argument("file", type=Path, help="Python file with a Study named `study`")
    study.add_argument("--again", action="store_true", help="also the cases that are recorded already")
    _results_option(study)
    replay = commands.add_parser("replay", help="make a recorded run again, with its settings and seed, and compare")
    replay.add_argument("folder", type=Path, help="of a run, as results/latest")
    _results_option(replay)
    compare = commands.add_parser("compare", help="two runs: what was set otherwise, and by what they differ; no root")
    compare.add_argument("first", type=Path, metavar="A", help="folder of a run")
    compare.add_argument("second", type=Path, metavar="B", help="folder of another one")
    compare.add_argument("--html", type=Path, metavar="PATH", help="write a page there")
    commands.add_parser("down", help="take down labs that `run --keep` has left standing")
    commands.add_parser("clean", help="remove what crashed runs left")
    return top


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


def _bench_options(bench: argparse.ArgumentParser) -> None:
    bench.add_argument("--suites", default="all", help=f"with commas, of {', '.join(SUITES)}; %(default)s")
    bench.add_argument("--quick", action="store_true", help="minutes: fewer sizes, rates, systems, steps")
    bench.add_argument("--switch", choices=SWITCHES, default=RunOptions().switch, help=_SWITCH_HELP)
    bench.add_argument("--seed", type=int, default=1, help="%(default)s")
    _engine_option(bench)
    _results_option(bench)


def _life_options(life: argparse.ArgumentParser) -> None:
    own = LifeOptions()
    life.add_argument("--rows", default="all", help=f"with commas, of {', '.join(ROWS)}; %(default)s")
    life.add_argument(
        "--switches", default="all", help=f"with commas, of {', '.join(LIFE_SWITCHES)}; default: those that are here"
    )
    life.add_argument("--seeds", type=int, help=f"of the rows that have seeds; {SEEDS}, bmv2 {BMV2_SEEDS}")
    life.add_argument("--parallel", type=int, default=own.parallel, help="cases side by side, %(default)s")
    _results_option(life)


def _trust_options(trust: argparse.ArgumentParser) -> None:
    trust.add_argument("--rows", default="all", help=f"with commas, of {', '.join(TRUST_ROWS)}; %(default)s")
    trust.add_argument("--quick", action="store_true", help="a hundredth of everything, for a try of minutes")
    _results_option(trust)


def _papers_options(papers: argparse.ArgumentParser) -> None:
    papers.add_argument("--rows", default="all", help=f"with commas, of {', '.join(PAPERS)}, or PAPER-ROW; %(default)s")
    papers.add_argument("--quick", action="store_true", help="one seed, few steps, for a try of minutes")
    _results_option(papers)


def _ways_options(ways: argparse.ArgumentParser) -> None:
    ways.add_argument("--rows", default="all", help=f"with commas, of {', '.join(WAYS)}, or WAY-ROW; %(default)s")
    ways.add_argument("--quick", action="store_true", help="one seed, few steps, for a try of minutes")
    _results_option(ways)


def _see_options(see: argparse.ArgumentParser) -> None:
    see.add_argument("--rows", default="all", help=f"with commas, of {', '.join(SEE_ROWS)}; default: %(default)s")
    see.add_argument(
        "--switches", default="all", help=f"of the row doctor, with commas, of {', '.join(LIFE_SWITCHES)}; %(default)s"
    )
    see.add_argument("--quick", action="store_true", help="fewer packets and one switch, for a try of minutes")
    _results_option(see)


def _faithful_options(faithful: argparse.ArgumentParser) -> None:
    faithful.add_argument(
        "--rows", default="all", help=f"with commas, of {', '.join(GROUPS)}, or GROUP-ROW; %(default)s"
    )
    faithful.add_argument("--quick", action="store_true", help="a twentieth of everything, for a try of minutes")
    _results_option(faithful)


def _allreduce_options(allreduce: argparse.ArgumentParser) -> None:
    allreduce.add_argument("--sizes", default="100k,1M", help="float32 values, %(default)s")
    allreduce.add_argument("--bw", default="10,100", help="link rates in Mbit/s, or unlimited, %(default)s")
    known = "also sum32, auto, asking"
    allreduce.add_argument("--systems", default="gloo,thc,sign", help=f"in this order, %(default)s; {known}")
    allreduce.add_argument("--workers", type=int, default=RunOptions().workers, help="hosts, %(default)s")
    allreduce.add_argument("--switch", choices=SWITCHES, default=RunOptions().switch, help=_SWITCH_HELP)
    _engine_option(allreduce)
    _results_option(allreduce)


def _turns_options(turns: argparse.ArgumentParser) -> None:
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
    own = CodecOptions()
    codec.add_argument("--codec", choices=CODECS, default=own.codec, help="%(default)s")
    codec.add_argument("--values", type=int, default=own.values, help="float32 values, %(default)s")
    codec.add_argument("--block", type=int, help="THC: rotation length; 0 for the full tensor")
    codec.add_argument("--rounds", type=int, default=own.rounds, help="rounds that are timed, %(default)s")
    codec.add_argument("--warmup", type=int, default=own.warmup, help="rounds before them, %(default)s")
    codec.add_argument("--device", choices=DEVICES, default=own.device, help="where the tensor is, %(default)s")
    codec.add_argument("--json", type=Path, help="write the summary here")


def _aggregator_options(aggregator: argparse.ArgumentParser) -> None:
    own = AggregatorOptions()
    aggregator.add_argument("--op", choices=tuple(CODES), default=own.op, help="%(default)s")
    aggregator.add_argument("--workers", type=int, default=own.workers, help="%(default)s")
    aggregator.add_argument("--processes", type=int, default=own.processes, help="of the aggregator, %(default)s")
    aggregator.add_argument("--rate", type=float, default=inf, help="contributions per second at most")
    aggregator.add_argument(
        "--piece", type=int, default=own.piece, help="slots that are summed before the next ones begin, %(default)s"
    )
    aggregator.add_argument(
        "--priority", type=int, choices=range(p4.PRIORITIES), default=own.priority, help="of all packets, %(default)s"
    )
    aggregator.add_argument("--seconds", type=float, default=own.seconds, help="of a run, %(default)s")
    aggregator.add_argument("--runs", type=int, default=own.runs, help="%(default)s")
    aggregator.add_argument("--limit-us", type=float, default=inf, help="fail above this CPU time of a contribution")
    aggregator.add_argument("--json", type=Path, help="write the summary here")


def _rates_options(rates: argparse.ArgumentParser) -> None:
    rates.add_argument("--task", choices=tuple(TASKS), default=DEFAULT_TASK, help="what to train, %(default)s")
    known = f"of {', '.join(SYSTEMS)}"
    rates.add_argument("--systems", default="gloo,fp16,powersgd,topk,thc", help=f"%(default)s; {known}")
    rates.add_argument("--bw", default="10,25,50,100", help="link rates in Mbit/s, %(default)s")
    rates.add_argument("--seeds", default="1,2,3", help="with commas, %(default)s")
    rates.add_argument("--quick", action="store_true", help="fewer passes over the data")
    rates.add_argument("--switch", choices=SWITCHES, default=RunOptions().switch, help=_SWITCH_HELP)
    _engine_option(rates)
    _results_option(rates)


def _acp_options(acp: argparse.ArgumentParser) -> None:
    own = AcpOptions()
    acp.add_argument("--parts", default=",".join(PARTS), help="with commas, %(default)s")
    acp.add_argument("--systems", default=",".join(own.systems), help=f"%(default)s; of {', '.join(SYSTEMS)}")
    text = "swept buffer sizes in MB, 0 for a tensor in each; %(default)s"
    acp.add_argument("--buffers", default=",".join(f"{size:g}" for size in own.buffers), help=text)
    acp.add_argument("--ranks", default=_listed(own.ranks), help="swept ranks, %(default)s")
    acp.add_argument("--bw", type=float, default=own.mbit, help="link rate in Mbit/s, %(default)g")
    acp.add_argument("--steps", type=int, default=own.steps, help="of each training, %(default)s")
    acp.add_argument("--batch", type=int, default=own.batch, help="samples per worker and step, %(default)s")
    _results_option(acp)


def _thc_options(thc: argparse.ArgumentParser) -> None:
    own = ThcOptions({"thc": THC})
    thc.add_argument("--ablation", action="store_true", help=f"each of {', '.join(ABLATIONS)}")
    thc.add_argument("--baselines", action="store_true", help="TernGrad, Top-k 10 %% and DGC as well")
    thc.add_argument("--workers", default=_listed(own.workers), help="with commas, %(default)s")
    thc.add_argument("--seeds", default=_listed(own.seeds), help="with commas, %(default)s")
    thc.add_argument("--left-out", type=int, default=own.left_out, help="workers that are late in a step, %(default)s")
    thc.add_argument("--loss", type=float, default=own.loss, help="share of chunks that are lost, %(default)s")
    thc.add_argument("--epochs", type=int, default=own.epochs, help="passes over the digits, %(default)s")
    thc.add_argument("--hidden", type=int, default=own.hidden, help="units of a hidden layer, %(default)s")
    thc.add_argument("--bits", type=int, default=THC.bits, help="of an index, %(default)s")
    thc.add_argument("--granularity", type=int, help="of the table; default: the best one for the workers")
    thc.add_argument("--clip", type=float, default=THC.p, help="share of values that is clipped, %(default)s")
    thc.add_argument("--table", choices=KINDS, default=THC.table, help="%(default)s")
    thc.add_argument("--block", type=int, default=THC.block, help="values rotated together, 0 for all; %(default)s")
    thc.add_argument("--no-rotation", action="store_true")
    thc.add_argument("--norms", choices=(BLOCK, GLOBAL), default=THC.norms, help="one each block, or one; %(default)s")
    thc.add_argument("--range", choices=(NORM, MINMAX), default=THC.range, help="what the grid spans, %(default)s")
    thc.add_argument("--no-feedback", action="store_true", help="without error feedback")
    thc.add_argument("--json", type=Path, help="write the rows here")


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _engine_option(command: argparse.ArgumentParser) -> None:
    text = "engine of the soft switch, %(default)s; auto: native if there is a compiler"
    command.add_argument("--engine", choices=ENGINES, default="auto", help=text)


def _results_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--results", type=Path, default=Path("results"), help="folder of results, %(default)s")


def bench_options(arguments: argparse.Namespace) -> BenchOptions:
    """Options of the command `bench`. Raises OptionError."""
    return BenchOptions(
        quick=arguments.quick,
        suites=parse_suites(arguments.suites),
        switch=arguments.switch,
        engine=arguments.engine,
        seed=arguments.seed,
    )


def life_options(arguments: argparse.Namespace) -> LifeOptions:
    """Options of the command `verify-life`. Raises OptionError."""
    return LifeOptions(
        rows=parse_names(arguments.rows, ROWS),
        switches=parse_names(arguments.switches, present()),
        seeds=arguments.seeds,
        parallel=arguments.parallel,
    )


def trust_options(arguments: argparse.Namespace) -> TrustOptions:
    """Options of the command `verify-trust`. Raises OptionError."""
    return TrustOptions(parse_names(arguments.rows, TRUST_ROWS), arguments.quick)


def papers_options(arguments: argparse.Namespace) -> PapersOptions:
    """Options of the command `verify-papers`. Raises OptionError."""
    return PapersOptions(parse_names(arguments.rows, PAPERS), arguments.quick)


def see_options(arguments: argparse.Namespace) -> SeeOptions:
    """Options of the command `verify-see`. Raises OptionError."""
    return SeeOptions(
        parse_names(arguments.rows, SEE_ROWS), arguments.quick, parse_names(arguments.switches, LIFE_SWITCHES)
    )


def ways_options(arguments: argparse.Namespace) -> WaysOptions:
    """Options of the command `verify-ways`. Raises OptionError."""
    return WaysOptions(parse_names(arguments.rows, WAYS), arguments.quick)


def faithful_options(arguments: argparse.Namespace) -> FaithfulOptions:
    """Options of the command `verify-faithful`. Raises OptionError."""
    return FaithfulOptions(parse_names(arguments.rows, GROUPS), arguments.quick)


def codec_options(arguments: argparse.Namespace) -> CodecOptions:
    """Options of the command `bench-codec`. Raises OptionError."""
    return CodecOptions(
        arguments.codec, arguments.values, arguments.block, arguments.rounds, arguments.warmup, arguments.device
    )


def aggregator_options(arguments: argparse.Namespace) -> AggregatorOptions:
    """Options of the command `bench-aggregator`. Raises OptionError."""
    return AggregatorOptions(**{field.name: getattr(arguments, field.name) for field in fields(AggregatorOptions)})


def rates_options(arguments: argparse.Namespace) -> tuple[tuple[str, ...], tuple[int, ...], BenchOptions]:
    """Systems, seeds and other options of the command `bench-rates`. Raises OptionError."""
    chosen = BenchOptions(quick=arguments.quick, switch=arguments.switch, engine=arguments.engine)
    return named(arguments.systems), _integers("seeds", arguments.seeds), chosen


def acp_options(arguments: argparse.Namespace) -> AcpOptions:
    """Options of the command `bench-acp`. Raises OptionError."""
    return AcpOptions(
        parts=tuple(arguments.parts.split(",")),
        systems=named(arguments.systems),
        buffers=_numbers("buffers", arguments.buffers),
        ranks=_integers("ranks", arguments.ranks),
        mbit=arguments.bw,
        steps=arguments.steps,
        batch=arguments.batch,
    )


def thc_options(arguments: argparse.Namespace) -> ThcOptions:
    """Options of the command `bench-thc`. Raises OptionError."""
    given = Variant(
        bits=arguments.bits,
        granularity=arguments.granularity,
        p=arguments.clip,
        table=arguments.table,
        block=arguments.block,
        rotation=not arguments.no_rotation,
        norms=arguments.norms,
        range=arguments.range,
        feedback=not arguments.no_feedback,
    )
    if arguments.ablation and given != THC:
        raise OptionError("ablation: changes one part at a time; leave out the options of a part")
    return ThcOptions(
        variants=ABLATIONS if arguments.ablation else {"thc" if given == THC else "given": given},
        workers=_integers("workers", arguments.workers),
        seeds=_integers("seeds", arguments.seeds),
        left_out=arguments.left_out,
        loss=arguments.loss,
        epochs=arguments.epochs,
        hidden=arguments.hidden,
        baselines=arguments.baselines,
    )


def _numbers(name: str, text: str) -> tuple[float, ...]:
    """Numbers with commas. Raises OptionError."""
    try:
        return tuple(map(float, text.split(",")))
    except ValueError as error:
        raise OptionError(f"{name}={text}: must be numbers with commas, as 0,2.5") from error


def _integers(name: str, text: str) -> tuple[int, ...]:
    """Whole numbers with commas. Raises OptionError."""
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise OptionError(f"{name}={text}: must be whole numbers with commas, as 4,16")
    return tuple(map(int, words))
