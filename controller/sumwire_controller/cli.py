# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Command line. Exit status: 0 done, 1 refused or failed, 2 wrong usage."""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from sumwire_controller.config import Config
from sumwire_controller.errors import ControllerError
from sumwire_controller.jobfile import job_json
from sumwire_controller.parse import load_config

DONE, FAILED = 0, 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `sumwire-controller`."""
    options = _parser().parse_args(arguments)
    # p4runtime-shell logs to the root logger what we say better ourselves.
    logging.basicConfig(handlers=[logging.StreamHandler() if options.verbose else logging.NullHandler()])
    try:
        command = _COMMANDS[options.command]
        return command(options, load_config(options.config))
    except (ControllerError, OSError) as error:
        print(error, file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sumwire-controller", description="Control plane of Sumwire switches.")
    parser.add_argument("--verbose", action="store_true", help="show the log of the P4Runtime library")
    commands = parser.add_subparsers(dest="command", required=True)

    check = commands.add_parser("check-config", help="check a configuration; no network")
    apply = commands.add_parser("apply", help="make the switch hold what the configuration says")
    apply.add_argument("--renew", metavar="JOB", action="append", default=[], help="start this job anew (repeatable)")
    status = commands.add_parser("status", help="tables and counters, read back from the switch")
    job_file = commands.add_parser("job-file", help="write what a training host must know about a job; no network")
    job_file.add_argument("--job", metavar="NAME", required=True)
    job_file.add_argument("-o", "--output", metavar="FILE", type=Path, help="default: standard output")

    for command in (apply, status):
        command.add_argument("--p4", metavar="DIR", type=Path, help="compiled program; default: p4src/build")
        command.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="for each call to the switch")
        command.add_argument("--json", action="store_true", help="machine-readable")
    for command in (check, apply, status, job_file):
        command.add_argument("config", metavar="CONFIG", type=Path, help="YAML file")
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number of seconds above 0")
    return value


def _check_config(options: argparse.Namespace, config: Config) -> int:
    print(
        f"{options.config}: switch {config.switch.name}, {len(config.workers)} workers, {len(config.jobs)} jobs: good"
    )
    return DONE


def _apply(options: argparse.Namespace, config: Config) -> int:
    from sumwire_controller.operations import apply
    from sumwire_controller.switch import DEFAULT_TIMEOUT_S

    timeout = options.timeout or DEFAULT_TIMEOUT_S
    report = apply(config, build_dir=options.p4, timeout=timeout, renew=options.renew)
    print(json.dumps(report.as_json(), indent=2) if options.json else report.details())
    return DONE


def _status(options: argparse.Namespace, config: Config) -> int:
    from sumwire_controller.operations import read_status
    from sumwire_controller.switch import DEFAULT_TIMEOUT_S

    status = read_status(config, build_dir=options.p4, timeout=options.timeout or DEFAULT_TIMEOUT_S)
    print(json.dumps(status.as_json(), indent=2) if options.json else status)
    return DONE


def _job_file(options: argparse.Namespace, config: Config) -> int:
    text = job_json(config, options.job)
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text, encoding="utf-8")
    return DONE


_COMMANDS = {"check-config": _check_config, "apply": _apply, "status": _status, "job-file": _job_file}


if __name__ == "__main__":
    sys.exit(main())
