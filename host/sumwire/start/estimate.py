# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire pays`: its options, whom it asks, and what it prints. :mod:`sumwire.systems.pays` computes."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from sumwire.errors import ConfigError
from sumwire.start import measuring, model_shapes
from sumwire.start.programs import host_names

DESCRIPTION: Final = (
    "Measures the processor time of steps on this machine for seconds, and computes the rest. Where torchrun, srun or "
    "mpirun starts it on each of several machines, or itself by ssh with --hosts, it measures the paths between them "
    "too. It needs PyTorch."
)


def divided(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of the command, and those after -- , which are its script's. argparse would not take these after
    an option."""
    end = words.index("--") if "--" in words else len(words)
    return list(words[:end]), list(words[end + 1 :])


def add_options(pays: argparse.ArgumentParser) -> None:
    """Add the options of `sumwire pays` to a parser."""
    size = pays.add_mutually_exclusive_group(required=True)
    text = "your training script, run until its model is ready, for the shapes; its own arguments follow after --"
    size.add_argument("script", metavar="SCRIPT", type=Path, nargs="?", help=text)
    size.add_argument("--params", metavar="NUMBER", help="parameters that are trained, as 110M")
    text = "resnet50, resnet152, bert-base, bert-large, or FILE.py:CALLABLE: its parameters, and their shapes"
    size.add_argument("--model", metavar="MODEL", help=text)
    pays.add_argument(
        "--hosts", type=host_names, default=(), metavar="HOST,HOST", help="measure between these, started there by ssh"
    )
    pays.add_argument(
        "--remote-command",
        default=measuring.REMOTE_COMMAND,
        metavar="COMMAND",
        help="on the hosts (default: %(default)s)",
    )
    pays.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    pays.add_argument("--rate", metavar="RATE", help="bit/s of a worker's link, as 1G (default: what is measured)")
    pays.add_argument("--rtt", metavar="TIME", help="round trip of two hosts (default: the measured one, or 0.2ms)")
    pays.add_argument("--workers", type=int, metavar="NUMBER", help="default: as many as are started, or 8")
    text = "of matrices, as 768x3072*24,30522x768; the rest counts as vectors (default: 1024x1024, as many as fit)"
    pays.add_argument("--shapes", metavar="SHAPES", help=text)
    pays.add_argument("--rank", type=int, default=4, metavar="NUMBER", help="of low-rank systems (default: 4)")
    text = "bit/s of the link of a software aggregator (default: a switch that is as fast as its ports)"
    pays.add_argument("--aggregator", metavar="RATE", help=text)
    text = "limit of the script's part (default: %(default)g)"
    pays.add_argument("--timeout", type=float, default=model_shapes.TIMEOUT_S, metavar="SECONDS", help=text)
    pays.add_argument("--json", action="store_true", help="print one JSON object")


def answer(options: argparse.Namespace, arguments: Sequence[str]) -> str:
    """Measure, and return what is to be printed; "" where another rank does. ``arguments``: the script's. Raises
    SumwireError."""
    from sumwire.start import paths, trial
    from sumwire.systems import pays

    tensors = _tensors(options, arguments)
    if options.hosts:
        return measuring.told_by(options.hosts, options.remote_command, _words(options, tensors))
    if options.with_parent:
        from sumwire.aggregator.processes import ParentProcess

        ParentProcess().end_with_it()
    ranks = paths.meeting()
    between = None if ranks is None else paths.measured(ranks)
    asked = pays.question(
        tensors,
        f"{between.link_bps:.0f}" if between and options.rate is None else options.rate,
        options.rtt or (f"{between.rtt_s:.9f}s" if between else "0.2ms"),
        (between.ranks if between else 8) if options.workers is None else options.workers,
        rank=options.rank,
        aggregator=options.aggregator,
    )
    if sys.stderr.isatty():
        sys.stderr.write("sumwire: makes steps with each system between processes here, for ten seconds or more\n")
    costs = trial.measured(asked)
    if ranks is not None:
        costs = pays.Measured.slowest(ranks.gather(asdict(costs), patience_s=trial.PATIENCE_S))
        ranks.leave()
        if ranks.rank:
            return ""
    found = pays.answers(asked, costs)
    if options.json:
        return json.dumps(pays.as_dict(found, costs.left_out, asked))
    script = None if options.script is None else str(options.script)
    machines, assumed = between.ranks if between else 1, options.params is not None and options.shapes is None
    return pays.as_text(found, costs.left_out, asked, machines=machines, assumed=assumed, script=script)


def _words(options: argparse.Namespace, tensors: Sequence[tuple[int, ...]]) -> list[str]:
    """The options of a rank. Of a model it needs the shapes alone, so neither its file nor a script is there."""
    counts = Counter("x".join(map(str, shape)) for shape in tensors)
    words = ["--params", str(sum(map(math.prod, tensors)))]
    if options.params is None or options.shapes is not None:
        words += ["--shapes", ",".join(f"{shape}*{count}" for shape, count in counts.items())]
    named = {name: getattr(options, name) for name in ("rate", "rtt", "workers", "rank", "aggregator")}
    words += [word for name, value in named.items() if value is not None for word in (f"--{name}", str(value))]
    return [*words, *(["--json"] if options.json else [])]


def _tensors(options: argparse.Namespace, arguments: Sequence[str]) -> list[tuple[int, ...]]:
    from sumwire.systems import pays

    if options.script is None:
        if arguments:
            cure = "write sumwire pays train.py -- ARGUMENTS"
            raise ConfigError("arguments", [*arguments], "must follow a script", where="pays", cure=cure)
        return pays.tensors_of(options.params, options.shapes, options.model)
    if options.shapes is not None:
        raise ConfigError(
            "--shapes", options.shapes, "must not be given with a script", where="pays", cure="leave it out"
        )
    return model_shapes.shapes_of_script(options.script, arguments, options.timeout)
