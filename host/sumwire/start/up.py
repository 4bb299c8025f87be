# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire up`: makes a job, starts its aggregator or applies it to switches, serves its description, and keeps all of
it running."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from commonlib.logs import Form, add_option
from commonlib.untrusted import UntrustedInputError, json_of
from nativelib import UntrustedError, programs
from sumwire_protocol import constants as p4

from sumwire.config import parse_job
from sumwire.config.job_config import ThcParameters
from sumwire.start import addresses, job_request, supervisor
from sumwire.start.addresses import source_towards
from sumwire.start.errors import ServiceError, StartError
from sumwire.start.job_request import complete_job_file, public
from sumwire.start.launchers import allocated_hosts
from sumwire.start.programs import Rack, UpOptions, host_names, plan
from sumwire.start.service import PORT, ServiceAddress, serving
from sumwire.start.supervisor import AggregatorCommand, Say, keep

_BITS: Final = (1, 2, 3, 4)
CONTROLLER: Final = "sumwire-controller"
_COMMAND_S: Final = 120.0
_EVERY_ADDRESS: Final = "0.0.0.0"


def add_options(start: argparse.ArgumentParser) -> None:
    """Add the options of `sumwire up` to a parser."""
    start.add_argument(
        "--hosts",
        type=host_names,
        nargs="+",
        action="extend",
        default=[],
        metavar="HOST,HOST",
        help="the workers, one a server (default: those of the Slurm allocation that the command is in)",
    )
    start.add_argument(
        "--tree", type=int, metavar="N", help="divide the hosts among N aggregators, the leaves, below a root"
    )
    start.add_argument(
        "--rack",
        nargs="+",
        action="append",
        default=[],
        metavar="[LEAF=]HOST,HOST",
        help="the hosts of one leaf, and its server (default: one of them); once for each leaf, in place of --hosts",
    )
    start.add_argument(
        "--elastic",
        type=int,
        metavar="MIN",
        help="ranks may come and go: serve runs of MIN and more of the hosts, and start torchft's lighthouse",
    )
    start.add_argument("--bits", type=int, choices=_BITS, metavar="N", help="of THC's indices, 1 to 4 (default: 4)")
    start.add_argument("--name", default=job_request.DEFAULT_NAME, help="of the job (default: %(default)s)")
    start.add_argument("--number", type=int, default=job_request.DEFAULT_NUMBER, help="of the job (default: 1)")
    start.add_argument(
        "--gbit", type=float, default=job_request.DEFAULT_GBIT, help="rate of a worker's link (default: %(default)g)"
    )
    start.add_argument(
        "--rtt-ms",
        type=float,
        default=job_request.DEFAULT_RTT_MS,
        metavar="MS",
        help="round trip to the aggregator (default: %(default)g)",
    )
    start.add_argument(
        "--worker-port",
        type=int,
        default=p4.SUMWIRE_PORT,
        metavar="PORT",
        help="the workers' first UDP port, for a second job on the same servers (default: %(default)s)",
    )
    start.add_argument(
        "--aggregator", metavar="ADDRESS", help="the aggregator's, or the root's (default: this machine's)"
    )
    start.add_argument(
        "--ssh",
        nargs="?",
        const="",
        metavar="[USER@]HOST",
        help="start the aggregator there; in a tree also each leaf on its server, and without HOST these alone",
    )
    start.add_argument(
        "--remote-command",
        default=supervisor.REMOTE_COMMAND,
        metavar="COMMAND",
        help="with --ssh (default: %(default)s)",
    )
    start.add_argument(
        "--listen",
        type=_listen,
        metavar="ADDRESS[:PORT]",
        help=f"where the job is served (default: this machine's address, {PORT})",
    )
    start.add_argument(
        "--switches",
        type=Path,
        metavar="FILE",
        help="apply the job of this name in a controller's configuration to its switches, without an aggregator",
    )
    add_option(start)


def chosen(options: argparse.Namespace) -> UpOptions:
    """Return the options of `up` from parsed arguments. In a Slurm allocation its hosts are the default. Raises
    PlaceError where these cannot be read."""
    request = job_request.JobRequest(
        options.name, options.number, options.bits, options.gbit, options.rtt_ms, options.worker_port, options.elastic
    )
    # Another version, on another machine, may not know the option.
    logging = ("--log-format", "json") if options.log_format is Form.JSON else ()
    hosts = tuple(host for some in options.hosts for host in some)
    if not (hosts or options.rack or options.switches):
        hosts = allocated_hosts(os.environ)
    racks = tuple(Rack.parse(words) for words in options.rack)
    return UpOptions(
        hosts, request, racks, options.tree, options.aggregator, options.ssh, options.remote_command, options.listen,
        options.switches, logging,
    )  # fmt: skip


def _listen(text: str) -> tuple[str, int]:
    try:
        at = ServiceAddress.parse(text)
        return addresses.address_of(at.host), at.port
    except ServiceError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def up(options: UpOptions, say: Say) -> None:
    """Run until Ctrl-C or SIGTERM. ``say`` gets lines for humans.

    Raises ServiceError, StartError, UsageError and ConfigError.
    """
    ready, say = threading.Event(), _line_by_line(say)
    programs: list[AggregatorCommand] = []
    if options.switches is not None:
        job = _switches(options, options.switches, say)
        ready.set()
    else:
        job, programs = plan(options)
    with _until_signal(), contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        # First: it refuses a job with a secret, and a port that is taken, before anything runs.
        address, port = options.listen or (_own_address(job), PORT)
        port = stack.enter_context(serving(job, address, port, say, ready))
        address = _own_address(job) if address == _EVERY_ADDRESS else address
        for line in summary(job):
            say(line)
        least = options.request.workers_min
        call = "job = sumwire.init()" if least is None else "training = sumwire.elastic(model, optimizer)"
        say(f"the job is at http://{address}:{port}; in each script: {call}")
        say(_hint(address, port))
        if least is not None:
            say(f"torchft's lighthouse: {stack.enter_context(_lighthouse(address, least))}, for {least} ranks and more")
        if options.switches is None:
            keep(programs, job, say, ready)
        else:
            _keep_watch([_controller_here(), *options.logging, "watch", str(options.switches)])
    say("stopped")


def _lighthouse(address: str, least: int) -> contextlib.AbstractContextManager[str]:
    # It needs torch, and no other job does here.
    from sumwire.start.quorum import lighthouse

    return lighthouse(address, least)


def _line_by_line(say: Say) -> Say:
    """Lines come from several threads: those of aggregators, and of the service. Where nobody reads them any more, as
    behind `| head`, the process is told to end."""
    lock, main = threading.Lock(), threading.main_thread()
    is_told_to_end = False

    def said(line: str) -> None:
        nonlocal is_told_to_end
        with lock:
            try:
                say(line)
            except BrokenPipeError:
                if threading.current_thread() is main:
                    raise
                if not is_told_to_end:
                    is_told_to_end = True
                    os.kill(os.getpid(), signal.SIGTERM)

    return said


def summary(job: Mapping[str, Any]) -> list[str]:
    """Return a job in one line, and each leaf of a tree in one more."""
    config = parse_job(job, 0)
    bits = "" if config.thc is None else f", thc with {config.thc.bits} bits{_few_levels(config.thc)}"
    by_leaf: dict[str, list[str]] = {}
    for address in config.addresses:
        by_leaf.setdefault(address.aggregator, []).append(address.ip)
    begin, end = f"job {config.name} (number {config.job}): {_workers(config.workers)}", f"{bits}, {config.slots} slots"
    if not config.tree:
        hosts = ", ".join(address.ip for address in config.addresses)
        return [f"{begin} ({hosts}){end}, aggregator {config.aggregator}"]
    first = f"{begin}{end}, {len(by_leaf)} leaves below the aggregator {config.tree[0].above}"
    leaves = (f"leaf {leaf}: {_workers(len(hosts))} ({', '.join(hosts)})" for leaf, hosts in by_leaf.items())
    return [first, *leaves]


def _few_levels(thc: ThcParameters) -> str:
    """Of a table that tells fewer values apart than its bits could, since sums of many workers must fit."""
    levels = len(set(thc.table))
    return "" if levels == 1 << thc.bits else f" (but {levels} levels for so many: the system thc-wide loses less)"


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def _hint(address: str, port: int) -> str:
    if port == PORT:
        return f"scripts find it by themselves where MASTER_ADDR is {address}; elsewhere set SUMWIRE_SERVICE={address}"
    return f"scripts find it where SUMWIRE_SERVICE={address}:{port} is set"


def _own_address(job: Mapping[str, Any]) -> str:
    return source_towards(str(job["addresses"][0]["ip"]))


def _switches(options: UpOptions, file: Path, say: Say) -> dict[str, Any]:
    """Apply a configuration, and return its job."""
    if options.racks or options.leaves is not None:
        raise StartError(f"--tree, --rack: the switches of {file} may have a tree of their own: leave both out")
    say(f"applying {file}")
    _controller("apply", str(file))
    text = _controller("job-file", "--job", options.request.name, str(file))
    try:
        job = json_of(text)
    except UntrustedInputError as error:
        raise StartError(f"{CONTROLLER} job-file wrote no job ({error}): install the same version of both") from error
    return complete_job_file(public(job), where=str(file))


def _controller_here() -> str:
    """The controller's program: that on PATH, or else that of this Python's environment, which need not be on it."""
    beside = Path(sys.executable).with_name(CONTROLLER)
    try:
        return programs.program(CONTROLLER)
    except FileNotFoundError:
        return str(beside) if beside.exists() else CONTROLLER
    except UntrustedError as error:
        raise StartError(str(error)) from error


def _controller(*words: str) -> str:
    """What a command of the controller prints."""
    command = [_controller_here(), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_COMMAND_S, env=programs.environment()
        )
    except FileNotFoundError as error:
        raise StartError(f"{CONTROLLER} is not installed: install it with pip install 'sumwire[controller]'") from error
    except subprocess.TimeoutExpired as error:
        raise StartError(f"{CONTROLLER} {words[0]} is not done after {_COMMAND_S:.0f} s: see the switches") from error
    if done.returncode:
        raise StartError(f"{CONTROLLER} {words[0]}: {done.stderr.strip()}; mend that, then run `sumwire up` again")
    return done.stdout


def _keep_watch(command: Sequence[str]) -> None:
    """Watch the switches, until the process is told to end."""
    with subprocess.Popen(command, env=programs.environment()) as process:
        try:
            status = process.wait()
        finally:
            process.terminate()
    raise StartError(f"{CONTROLLER} watch has ended with {status}; see its lines above, then run `sumwire up` again")


@contextlib.contextmanager
def _until_signal() -> Iterator[None]:
    """SIGTERM ends what Ctrl-C ends."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
