# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire-aggregator JOB.json...` serves jobs until it gets SIGTERM or SIGINT.

Exit status: 0 done, 1 refused or failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from ipaddress import AddressValueError, IPv4Address
from typing import Final

import numpy as np
from commonlib import log_context, logs, privileges
from commonlib.events import ProgramEvent
from commonlib.metrics import MetricsEndpoint, MetricsEndpointError, MetricsError, Reading, parse_endpoint
from commonlib.privileges import PrivilegeError
from commonlib.version import __version__
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol import metrics

from sumwire.aggregator.jobs import STDIN, load_jobs
from sumwire.aggregator.processes import ParentProcess, ProcessPool, signals_held
from sumwire.aggregator.state import HANDED_OVER, SENT, UNSENT, Shared
from sumwire.config import JobConfig
from sumwire.errors import SumwireError
from sumwire.logs import PATTERN

# The value of label `switch`.
NAME: Final = "aggregator"
_Cells = NDArray[np.uint64]
# Verdicts on questions and answers, which aggregators of a tree exchange each second, whatever the workers do.
_TALK: Final = (p4.VERDICT_INFORM, p4.VERDICT_KNOWN)
_NAMES: Final = {
    prefix: {value: name.removeprefix(prefix) for name, value in vars(p4).items() if name.startswith(prefix)}
    for prefix in ("VERDICT_", "REJECT_")
}


def _totals(shared: Shared) -> tuple[_Cells, _Cells, _Cells]:
    """Verdicts, reject reasons, and what happened to replies: each summed over all processes."""
    total = shared.counters.sum(axis=0)
    return total[: p4.VERDICTS], total[p4.VERDICTS :][: p4.REJECTS], total[p4.VERDICTS + p4.REJECTS :]


def readings(shared: Shared) -> Iterator[Reading]:
    """Yield all counters as metrics."""
    verdicts, rejects, sockets = _totals(shared)
    for index, name in metrics.VERDICT_NAMES.items():
        yield Reading(metrics.VERDICTS, (NAME, name), int(verdicts[index]))
    for index, name in metrics.REJECT_NAMES.items():
        yield Reading(metrics.REFUSED, (NAME, name), int(rejects[index]))
    yield Reading(metrics.REPLIES, (NAME, "sent"), int(sockets[SENT]))
    yield Reading(metrics.REPLIES, (NAME, "unsent"), int(sockets[UNSENT]))
    yield Reading(metrics.HANDED_OVER, (NAME,), int(sockets[HANDED_OVER]))


def prepare(place: MetricsEndpoint | None) -> None:
    """Import what :func:`served` needs before the process drops root's rights. Raises WatchError."""
    if place is not None:
        import_module("commonlib.metrics_server")


@contextmanager
def served(shared: Shared, place: MetricsEndpoint | None) -> Iterator[str]:
    """Serve the metrics at ``place`` within the block. Yields the address and port, "" without a place. Raises
    WatchError."""
    if place is None:
        yield ""
        return
    from commonlib.metrics_server import Exposition

    source = partial(readings, shared)
    with Exposition(place) as exposition:
        exposition.add(source)
        try:
            yield str(exposition.endpoint)
        finally:
            exposition.remove(source)


class Reporter:
    """Prints the counters, if workers' packets have changed them since the last call of :meth:`tell`."""

    def __init__(self, shared: Shared, voice: logs.Voice) -> None:
        self._shared, self._voice = shared, voice
        self._told = self._now()

    def tell(self) -> None:
        now = self._now()
        if now != self._told:
            told = report(self._shared).partition("\n")[0]
            self._voice.say(told, ProgramEvent.COUNTED(counters=counted(self._shared)))
        self._told = now

    def _now(self) -> tuple[int, ...]:
        return tuple(map(int, np.delete(_totals(self._shared)[0], _TALK)))


def report(shared: Shared) -> str:
    """Return the counters of all processes together, in three lines."""
    found = counted(shared)
    sockets = found["replies"]
    return "\n".join(
        (
            f"verdicts: {_listed(found['verdicts'])}",
            f"rejected: {_listed(found['rejected'])}",
            f"replies: {sockets['sent']} sent, {sockets['not sent']} not; between processes: {sockets['handed over']}",
        )
    )


def counted(shared: Shared) -> dict[str, dict[str, int]]:
    """Return all counters that are not 0, by kind (verdicts, reject reasons, replies) and name."""
    verdicts, rejects, sockets = _totals(shared)
    return {
        "verdicts": _named(verdicts, "VERDICT_"),
        "rejected": _named(rejects, "REJECT_"),
        "replies": {
            "sent": int(sockets[SENT]), "not sent": int(sockets[UNSENT]), "handed over": int(sockets[HANDED_OVER]),
        },
    }  # fmt: skip


def _named(cells: _Cells, prefix: str) -> dict[str, int]:
    return {_NAMES[prefix][index]: int(cells[index]) for index in np.flatnonzero(cells)}


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


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
        prepare(options.metrics)
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
                with served(pool.shared, options.metrics) as place:
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
        prog="sumwire-aggregator", description="Do a Sumwire switch's work on this server."
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
