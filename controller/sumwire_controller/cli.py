# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command line. Exit status: 0 done, 1 refused or failed, 2 wrong usage."""

from __future__ import annotations

import argparse
import json
import logging
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from commonlib import logs, privileges
from commonlib.events import ProgramEvent
from commonlib.metrics import MetricsEndpoint, MetricsEndpointError, MetricsError, parse_endpoint
from commonlib.privileges import PrivilegeError
from commonlib.shutdown import ShutdownSignal
from commonlib.version import __version__
from sumwire_protocol.events import Event as Events

from sumwire_controller.derive.jobs import job_json
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.errors import ControllerError, JobFileError, RunningJobsError
from sumwire_controller.model import Config, Topology
from sumwire_controller.parse.files import load_any
from sumwire_controller.rules.agreement import check_together

DONE, FAILED = 0, 1
_NAME: Final = "sumwire_controller"
# By the kinds of what `watch` sees.
_EVENTS: Final = {
    "dead": Events.ROOT_DEAD,
    "back": Events.ROOT_BACK,
    "moved": Events.ROWS_MOVED,
    "failed": Events.ROWS_FAILED,
    "stranded": Events.JOB_STRANDED,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `sumwire-controller`."""
    options = _parser().parse_args(arguments)
    options.words = sys.argv[1:] if arguments is None else arguments
    _log_to_stderr(options.verbose, options.log_format)
    try:
        return _COMMANDS[options.command](options)
    except (ControllerError, PrivilegeError, MetricsError) as error:
        logs.Voice(options.log_format, _NAME, sys.stderr).say(
            str(error), ProgramEvent.FAILED(reason=str(error)), logging.ERROR
        )
        return FAILED


def _log_to_stderr(verbose: bool, form: logs.Form) -> None:
    """Show our own warnings or, with `verbose`, everything; in JSON our own events in any case."""
    level = logging.INFO if verbose or form is logs.Form.JSON else logging.WARNING
    # gRPC's library logs to the root logger what we report ourselves.
    logs.to_stderr(form, level, "%(message)s", only="" if verbose else _NAME)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sumwire-controller", description="Control plane of Sumwire switches.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--verbose", action="store_true", help="show the log of the P4Runtime library")
    logs.add_option(parser)
    commands = parser.add_subparsers(dest="command", required=True)

    check = commands.add_parser("check-config", help="check configurations; no network")
    apply = commands.add_parser("apply", help="bring the switches to their configurations")
    apply.add_argument(
        "--renew", metavar="JOB", action="append", default=[], help="give this job a new generation (repeatable)"
    )
    apply.add_argument("--force", action="store_true", help="change also jobs that have run since they were admitted")
    status = commands.add_parser("status", help="tables and counters, read back from the switches")
    job_file = commands.add_parser("job-file", help="write the job file that training hosts read")
    job_file.add_argument("--job", metavar="NAME", required=True)
    job_file.add_argument("-o", "--output", metavar="FILE", type=Path, help="default: standard output")

    watch = commands.add_parser("watch", help="take a root that fails out of the switches below it, until Ctrl-C")
    watch.add_argument("--interval", metavar="SECONDS", type=_seconds, help="between two requests to a root")
    watch.add_argument("--patience", metavar="SECONDS", type=_seconds, help="for an answer of a root")
    watch.add_argument("--p4", metavar="DIR", type=Path, help="compiled program; default: that of Sumwire")
    watch.add_argument("--json", action="store_true", help="machine-readable: an object for each line")
    user_help = "become this user, who must be let into the switches, before the first request; needs root"
    watch.add_argument("--user", metavar="NAME", help=user_help)

    metrics = commands.add_parser("metrics", help="serve what switches have counted as metrics, until Ctrl-C")
    metrics.add_argument("--listen", metavar="[ADDRESS:]PORT", type=_place, required=True, help="where to serve them")

    for command in (apply, status, job_file, watch, metrics):
        _add_tls(command)
    for command in (apply, watch):
        command.add_argument("--take-over", action="store_true", help="even if another controller is the primary")
    for command in (apply, status, job_file, metrics):
        command.add_argument("--p4", metavar="DIR", type=Path, help="compiled program; default: that of Sumwire")
        command.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="for each call to a switch")
    for command in (apply, status):
        command.add_argument("--json", action="store_true", help="machine-readable")
    for command in (check, apply, status, watch, metrics):
        help_text = "YAML file of a switch or of a topology; several are applied together"
        command.add_argument("configs", metavar="CONFIG", type=Path, nargs="+", help=help_text)
    job_file.add_argument("config", metavar="CONFIG", type=Path, help="YAML file of a switch or of a topology")
    return parser


def _add_tls(command: argparse.ArgumentParser) -> None:
    command.add_argument("--tls-ca", metavar="FILE", type=Path, help="PEM: who signs the switches' certificates")
    command.add_argument("--tls-cert", metavar="FILE", type=Path, help="PEM: the controller's certificate")
    command.add_argument("--tls-key", metavar="FILE", type=Path, help="PEM: the key of that certificate")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number of seconds above 0")
    return value


def _place(text: str) -> MetricsEndpoint:
    try:
        return parse_endpoint(text)
    except MetricsEndpointError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _check_config(options: argparse.Namespace) -> int:
    files = _load(options)
    check_together(_configs(files))
    for path, content in zip(options.configs, files, strict=True):
        if isinstance(content, Config):
            counted = f"switch {content.switch.name}, {len(content.workers)} workers"
        else:
            counted = f"{len(content.switches)} switches, {len(content.hosts)} hosts"
        print(f"{path}: {counted}, {len(content.jobs)} jobs: good")
    return DONE


def _load(options: argparse.Namespace) -> list[Config | Topology]:
    return [load_any(path) for path in options.configs]


def _configs(files: Sequence[Config | Topology]) -> list[Config]:
    """The configurations of all switches in all files."""
    return [config for file in files for config in ([file] if isinstance(file, Config) else configs_of(file))]


def _deployed(options: argparse.Namespace, files: Sequence[Config | Topology]) -> list[Config]:
    """The configurations of all switches, with the TLS files of the command line."""
    from sumwire_controller.deploy.channel import tls_from

    tls = tls_from({"ca": options.tls_ca, "certificate": options.tls_cert, "key": options.tls_key})
    return [replace(config, switch=replace(config.switch, tls=tls)) for config in _configs(files)]


def _apply(options: argparse.Namespace) -> int:
    from sumwire_controller.deploy.operations import apply_all
    from sumwire_controller.deploy.switch import DEFAULT_TIMEOUT_S

    files = _load(options)
    timeout = options.timeout or DEFAULT_TIMEOUT_S
    try:
        reports = apply_all(
            _deployed(options, files),
            build_dir=options.p4,
            timeout=timeout,
            renew=options.renew,
            force=options.force,
            take_over=options.take_over,
        )
    except RunningJobsError as error:
        command = shlex.join(["sumwire-controller", *options.words, "--force"])
        raise RunningJobsError(error.changes, command) from error
    if options.json:
        _print_json(files, [report.as_json() for report in reports])
    else:
        print("\n".join(report.details() for report in reports))
    return DONE


def _status(options: argparse.Namespace) -> int:
    from sumwire_controller.deploy.p4info import Program

    # A program that is none of ours is named before gRPC and the tables of jobs, which take longer than all of this.
    program = Program.load(options.p4)
    from sumwire_controller.deploy.operations import statuses
    from sumwire_controller.deploy.switch import DEFAULT_TIMEOUT_S

    files = _load(options)
    timeout = options.timeout or DEFAULT_TIMEOUT_S
    found = statuses(_deployed(options, files), program, timeout)
    if options.json:
        _print_json(files, [status.as_json() for status in found])
    else:
        print("\n\n".join(map(str, found)))
    return DONE


def _watch(options: argparse.Namespace) -> int:
    from sumwire_controller.deploy.watch import INTERVAL_S, PATIENCE_S, Watch, WatchEvent

    def say(event: WatchEvent) -> None:
        if options.json:
            print(json.dumps(event.as_json()), flush=True)
        else:
            told = _EVENTS[event.kind](switch=event.switch, after_s=event.after_s, reason=event.detail)
            voice.say(str(event), told)

    voice = logs.Voice(options.log_format, _NAME)
    account = None if options.user is None else privileges.account_of(options.user)
    if account is not None:
        privileges.prepare()
    configs = _deployed(options, _load(options))
    watch = Watch(
        configs,
        interval_s=options.interval or INTERVAL_S,
        patience_s=options.patience or PATIENCE_S,
        build_dir=options.p4,
        take_over=options.take_over,
        say=say,
    )
    if account is not None:
        # The user may not be let into the folders of the program, which is read by now, and of Python.
        import_module("grpc._channel")
        privileges.become(account)
    with ShutdownSignal() as ending, watch:
        roots, below = ", ".join(watch.roots), ", ".join(watch.below)
        out = logs.Voice(options.log_format, _NAME, sys.stderr) if options.json else voice
        out.say(f"watching {roots} for {below}", ProgramEvent.READY(at=None))
        ending.wait()
    return DONE


def _metrics(options: argparse.Namespace) -> int:
    from commonlib.metrics_server import Exposition

    from sumwire_controller.deploy.switch import DEFAULT_TIMEOUT_S
    from sumwire_controller.deploy.watch import SwitchesMetrics

    configs = _deployed(options, _load(options))
    check_together(configs)
    source = SwitchesMetrics(configs, timeout=options.timeout or DEFAULT_TIMEOUT_S, build_dir=options.p4)
    with ShutdownSignal() as ending, Exposition(options.listen) as exposition:
        exposition.add(source)
        switches = ", ".join(config.switch.name for config in configs)
        told = ProgramEvent.METRICS_SERVED(at=str(exposition.endpoint))
        logs.Voice(options.log_format, _NAME).say(f"metrics of {switches}: http://{exposition.endpoint}/metrics", told)
        ending.wait()
    return DONE


def _print_json(files: Sequence[Config | Topology], switches: list[dict[str, Any]]) -> None:
    """Print one object for one switch's file, otherwise a list of objects, upper switches first."""
    alone = len(files) == 1 and isinstance(files[0], Config)
    print(json.dumps(switches[0] if alone else switches, indent=2))


def _job_file(options: argparse.Namespace) -> int:
    source = load_any(options.config)
    if any(job.name == options.job and job.takes_free for job in source.jobs):
        from sumwire_controller.deploy.operations import with_slots_of
        from sumwire_controller.deploy.switch import DEFAULT_TIMEOUT_S

        configs = _deployed(options, [source])
        timeout = options.timeout or DEFAULT_TIMEOUT_S
        source = with_slots_of(options.job, source, configs, build_dir=options.p4, timeout=timeout)
    text = job_json(source, options.job)
    if options.output is None:
        print(text, end="")
    else:
        try:
            options.output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise JobFileError(
                f"{error.filename}: {error.strerror}; name a file in a folder that is there: -o FILE"
            ) from error
    return DONE


_COMMANDS = {
    "check-config": _check_config,
    "apply": _apply,
    "status": _status,
    "job-file": _job_file,
    "watch": _watch,
    "metrics": _metrics,
}


if __name__ == "__main__":
    sys.exit(main())
