# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: `sumwire inspect`, `sumwire profile-loss` and `sumwire tune`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch.distributed as dist
from sumwire_protocol.version import __version__

from sumwire.config import load_job
from sumwire.dlcp import layers, loss_profile, packet_loss
from sumwire.dlcp.tags import LayerMagnitude, Policy
from sumwire.errors import SumwireError, UsageError
from sumwire.job.job import Job
from sumwire.job.tuning_file import tuning_path
from sumwire.job.tuning_table import TuningTable

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0 on success, 1 for an error, 130 for Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except SumwireError as error:
        print(f"sumwire: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("sumwire: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sumwire", description="Sums gradients inside the network.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    show = commands.add_parser("inspect", help="show lanes, priorities and drop classes of a model's tensors")
    show.add_argument("model", metavar="MODEL", help="resnet50, resnet152, bert-base, bert-large, or FILE.py:CALLABLE")
    show.add_argument("--lanes", type=int, default=4, help="number of lanes of the job (default: 4)")
    show.add_argument(
        "--policy", metavar="FILE.py:CALLABLE", help="returns the policy (default: by layer and magnitude)"
    )
    show.add_argument("--parameters", action="store_true", help="every parameter instead of every layer")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    show.set_defaults(run=_inspect)

    find = commands.add_parser(
        "profile-loss",
        help="find the largest share of lost packets with which a training script reaches its accuracy",
        description=loss_profile.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    find.add_argument("script", metavar="SCRIPT", type=Path, help="a Python file; its own arguments follow after --")
    find.add_argument("arguments", metavar="ARGUMENT", nargs="*", help="of the script, after --")
    goal = find.add_mutually_exclusive_group()
    goal.add_argument("--target", type=float, help="accuracy to reach, in the script's unit")
    goal.add_argument("--within", type=float, default=0.005, help="allowed loss of accuracy (default: 0.005)")
    find.add_argument(
        "--grid", type=_shares, default=loss_profile.GRID, metavar="P,P,...", help="shares to choose from"
    )
    find.add_argument(
        "--pattern", action="append", choices=packet_loss.PATTERNS, help="may be given twice (default: both)"
    )
    find.add_argument("--seeds", type=int, default=3, help="trainings per share and pattern (default: 3)")
    find.add_argument("--timeout", type=float, metavar="SECONDS", help="limit of one training")
    find.add_argument("--json", type=Path, metavar="FILE", help="write all runs to FILE")
    find.set_defaults(run=_profile_loss)

    tune = commands.add_parser(
        "tune",
        help="measure from which tensor size on the switch is faster than the process group",
        description="Run it by torchrun on all hosts of the job, as the training. The table is kept for later jobs.",
    )
    tune.add_argument("job_file", metavar="JOBFILE", type=Path)
    tune.set_defaults(run=_tune)
    return parser


def _inspect(options: argparse.Namespace) -> int:
    policy: Policy = LayerMagnitude.for_lanes(options.lanes)
    if options.policy:
        policy = layers.loaded(options.policy)()
    found = layers.rows(layers.shapes_of(options.model), policy, options.lanes, by_parameter=options.parameters)
    totals = layers.by_lane(found, options.lanes)
    if options.json:
        print(json.dumps({"layers": [asdict(row) for row in found], "lanes": [asdict(row) for row in totals]}))
    else:
        print(layers.as_text(found), layers.as_text(totals), sep="\n\n")
    return 0


def _profile_loss(options: argparse.Namespace) -> int:
    if options.json:
        _check_writable(options.json)
    found = loss_profile.profile(
        loss_profile.Script(options.script, tuple(options.arguments), options.timeout),
        target=options.target,
        within=options.within,
        grid=options.grid,
        patterns=options.pattern or packet_loss.PATTERNS,
        seeds=options.seeds,
        say=lambda line: print(line, flush=True),
    )
    if options.json:
        options.json.write_text(json.dumps(found.as_dict(), indent=1) + "\n")
    largest = found.bound == options.grid[-1]
    print(f"without loss: accuracy {found.baseline:.4f}; target {found.target:.4f}; {len(found.runs)} trainings")
    print(f"largest p that reaches it: {found.bound:g}{' (the end of the grid)' if largest else ''}")
    return 0


def _tune(options: argparse.Namespace) -> int:
    if not dist.is_torchelastic_launched():
        raise UsageError(
            "sumwire tune needs the process group that torchrun makes; start it by torchrun on every host: "
            f"torchrun -m sumwire.cli tune {options.job_file}"
        )
    dist.init_process_group("gloo")
    try:
        config = load_job(options.job_file, worker=dist.get_rank())
        with Job(config) as job:
            table = job.tune()
        if dist.get_rank() == 0:
            print(_tuned(table), f"kept in {tuning_path(job.config)}", sep="\n")
    finally:
        dist.destroy_process_group()
    return 0


def _tuned(table: TuningTable) -> str:
    lines = [f"{'codec':6} {'values':>10} {'switch, ms':>11} {'group, ms':>11}  goes by"]
    for codec, samples in table.samples.items():
        for sample in samples:
            way = "group" if sample.group_is_faster else "switch"
            times = f"{sample.switch_s * 1e3:11.3f} {sample.group_s * 1e3:11.3f}"
            lines.append(f"{codec:6} {sample.values:10} {times}  {way}")
    return "\n".join(lines)


def _check_writable(path: Path) -> None:
    """Raise UsageError before the trainings, not after them, if the file cannot be written."""
    try:
        path.open("a").close()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}: name a file that can be written: --json FILE") from error


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: must be numbers with commas between") from error


if __name__ == "__main__":
    sys.exit(main())
