# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire-aggregator JOB.json...` serves jobs until a signal.

Exit status: 0 done, 1 refused or failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Final

from commonlib import log_context, logs, privileges
from commonlib.events import ProgramEvent
from commonlib.metrics import MetricsEndpoint, MetricsEndpointError, MetricsError, parse_endpoint
from commonlib.privileges import PrivilegeError
from commonlib.version import __version__
from sumwire_protocol import constants as p4

from sumwire.aggregator import counters
from sumwire.aggregator.counters import Reporter, counted, report
from sumwire.aggregator.jobs import STDIN, load_jobs
from sumwire.aggregator.processes import ParentProcess, ProcessPool, signals_held
from sumwire.config import JobConfig
from sumwire.errors import SumwireError
from sumwire.logs import PATTERN

DONE, FAILED = 0, 1
_PROCESSES_MAX: Final = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `sumwire-aggregator`."""
    options = _parser().parse_args(arguments)
    logs.to_stderr(options.log_format, logging.getLevelName(options.log_level.upper()), PATTERN)
    voice = logs.Voice(options.log_format, "sumwire.aggregator", serves=True)
    try:
        account = None if options.user is None else privileges.account_of(options.user)
        jobs = load_jobs(options.jobs, options.at, key_file=options.key)
        if account is not None:
            privileges.prepare()
        address, port = options.listen or (options.at or jobs[0].aggregator, p4.SUMWIRE_PORT)
        log_context.is_switch(f"{address}:{port}")
        counters.prepare(options.metrics)
        named_in = "--listen" if options.listen else options.jobs[0]
        started_by = ParentProcess() if options.with_parent else None
        with signals_held():
            pool = ProcessPool(
                jobs, address, port, options.processes, named_in=named_in, at=options.at,
                told_to_stop=started_by.has_ended if started_by else lambda: False,
            )  # fmt: skip
            if account is not None:
                privileges.become(account)
            with pool:
                names = ", ".join(map(_described, jobs))
                if started_by is not None and not pool.is_stopped:
                    started_by.end_with_it()
                with counters.served(pool.shared, options.metrics) as place:
                    reporter = Reporter(pool.shared, voice)
                    told = f", metrics: {place}" if place else ""
                    if not pool.is_stopped:
                        voice.say(
                            f"ready: {address}:{port}, processes: {options.processes}, jobs: {names}{told}",
                            ProgramEvent.READY(at=f"{address}:{port}"),
                        )
                    pool.wait(reporter.tell, options.report)
            voice.say(report(pool.shared), ProgramEvent.COUNTED(counters=counted(pool.shared)))
    except (SumwireError, PrivilegeError, MetricsError, OSError) as error:
        logs.Voice(options.log_format, "sumwire.aggregator", sys.stderr).say(
            str(error), ProgramEvent.FAILED(reason=str(error)), logging.ERROR
        )
        return FAILED
    return DONE


def _described(job: JobConfig) -> str:
    lanes = f", {len(job.lanes)} lanes" if len(job.lanes) > 1 else ""
    # Without quotes, but escaped.
    return f"{repr(job.name)[1:-1]} ({job.job}, {job.workers} workers{lanes})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sumwire-aggregator",
        description="Do a Sumwire switch's work on this server.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument(
        "jobs", metavar="JOB.json", nargs="+", help=f"the job file that the job's workers use; {STDIN}: a line of stdin"
    )
    parser.add_argument(
        "--listen", metavar="ADDRESS[:PORT]", type=_listen, help="default: the aggregator's address in the job files"
    )
    parser.add_argument(
        "--at",
        metavar="ADDRESS",
        type=_address,
        help="which aggregator this is, where the job files have a tree of them",
    )
    parser.add_argument(
        "--processes", metavar="N", type=_processes, default=1, help="divide the slots among N processes"
    )
    parser.add_argument(
        "--key", metavar="FILE", help="read this file, and not the one that a job file names as the job's key"
    )
    parser.add_argument("--user", metavar="NAME", help="become this user once the port is open; needs root")
    parser.add_argument(
        "--report", metavar="SECONDS", type=_seconds, help="print the counters so often, if they changed"
    )
    parser.add_argument(
        "--with-parent", action="store_true", help="end with the program that started this one, or with standard input"
    )
    parser.add_argument("--metrics", metavar="[ADDRESS:]PORT", type=_place, help="serve metrics there")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    logs.add_option(parser)
    return parser


def _listen(text: str) -> tuple[str, int]:
    address, colon, port = text.partition(":")
    try:
        IPv4Address(address)
        number = int(port) if colon else p4.SUMWIRE_PORT
    except (AddressValueError, ValueError):
        number = 0
    if not 0 < number < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r}: must be an IPv4 address, or one with a port in 1..65535")
    return address, number


def _address(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except AddressValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: must be an IPv4 address") from error


def _place(text: str) -> MetricsEndpoint:
    try:
        return parse_endpoint(text)
    except MetricsEndpointError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _processes(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= _PROCESSES_MAX):
        raise argparse.ArgumentTypeError(f"{text!r}: must be an integer in 1..{_PROCESSES_MAX}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: must be above 0 seconds")
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
