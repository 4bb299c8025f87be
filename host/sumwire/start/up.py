# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire up`: makes a job, brings it to an aggregator or to switches, serves its description, and keeps it there."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from sumwire_protocol import constants as p4
from sumwire_protocol.outside import OutsideError, json_of

from sumwire.errors import ConfigError
from sumwire.start import child
from sumwire.start.child import Aggregator, Say
from sumwire.start.description import (
    Wanted,
    as_others_know,
    completed,
    described,
    is_local,
    public,
    server_address,
    source_towards,
)
from sumwire.start.errors import StartError
from sumwire.start.service import PORT, serving

CONTROLLER: Final = "sumwire-controller"
# Lines with the aggregator's counters, while they change.
_REPORT_S: Final = 10.0
# From the end of an aggregator to the next one, after each of several that ended one after the other.
_WAITS_S: Final = (0.0, 1.0, 5.0, 30.0)
_COMMAND_S: Final = 120.0
_EVERY_ADDRESS: Final = "0.0.0.0"
# The options that fields of a job come from.
_OPTION_OF: Final = {"job": "--number", "name": "--name", "addresses": "--worker-port", "udp_port": "--worker-port"}


@dataclass(frozen=True)
class Up:
    """``hosts``: the workers' names or addresses. ``aggregator``: the address of the aggregator; None for this
    machine's, or that of ``ssh``, where it is started then by ``remote_command``. ``listen``: address and port of the
    service; None for this machine's on the way to the first host. ``switches``: a file of `sumwire-controller`, to
    whose switches the job of name ``wanted.name`` is applied, in place of hosts and aggregator. ``logging``: more
    options of the programs that it starts."""

    hosts: Sequence[str] = ()
    wanted: Wanted = field(default_factory=Wanted)
    aggregator: str | None = None
    ssh: str | None = None
    remote_command: str = child.REMOTE_COMMAND
    listen: tuple[str, int] | None = None
    switches: Path | None = None
    logging: Sequence[str] = ()


def up(options: Up, say: Say) -> None:
    """Run until Ctrl-C or SIGTERM. ``say`` gets lines for people.

    Raises ServiceError, StartError, UsageError and ConfigError.
    """
    ready = threading.Event()
    if options.switches is not None:
        job = _switches(options, options.switches, say)
        command = [_controller_here(), *options.logging, "watch", str(options.switches)]
        ready.set()
    else:
        job = _job(options)
        command = _command(options)
    with _until_signal(), contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        # First: it refuses a job with a secret, and a port that is taken, before anything runs.
        address, port = options.listen or (_own_address(job), PORT)
        port = stack.enter_context(serving(job, address, port, say, ready))
        address = _own_address(job) if address == _EVERY_ADDRESS else address
        say(summary(job))
        say(f"the job is at http://{address}:{port}; in each script: job = sumwire.init()")
        say(_hint(address, port))
        if options.switches is None:
            _keep_aggregator(command, job, say, ready)
        else:
            _keep_watch(command)
    say("stopped")


def summary(job: Mapping[str, Any]) -> str:
    """A job in one line."""
    thc = job.get("thc", {}).get("bits", "4") if "thc" in job["ops"] else None
    hosts = ", ".join(entry["ip"] for entry in job["addresses"])
    bits = "" if thc is None else f", thc with {thc} bits"
    return (
        f"job {job['name']} (number {job['job']}): {_workers(job['workers'])} ({hosts}){bits}, {job['slots']} slots, "
        f"aggregator {job['addresses'][0]['aggregator']}"
    )


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def _hint(address: str, port: int) -> str:
    if port == PORT:
        return f"scripts find it by themselves where MASTER_ADDR is {address}; elsewhere set SUMWIRE_SERVICE={address}"
    return f"scripts find it where SUMWIRE_SERVICE={address}:{port} is set"


def _job(options: Up) -> dict[str, Any]:
    found = {host: server_address(host) for host in options.hosts}
    if not found:
        raise StartError("no hosts: name the workers: sumwire up --hosts A,B")
    if len(options.hosts) > p4.JOB_WORKERS_MAX:
        raise StartError(
            f"{len(options.hosts)} hosts: a job has at most {p4.JOB_WORKERS_MAX} workers: name fewer; several ranks "
            "of a server share its worker"
        )
    addresses = as_others_know(found)
    aggregator = options.aggregator or (options.ssh or "").rpartition("@")[2] or None
    at = server_address(aggregator) if aggregator else source_towards(addresses[options.hosts[0]])
    try:
        job = described([addresses[host] for host in options.hosts], at, options.wanted)
    except ConfigError as error:
        option = _OPTION_OF.get(error.field, error.field)
        raise StartError(f"{option} = {error.value!r}: {error.rule}: give another value, or leave it out") from error
    if not options.ssh:
        _check_place(at)
    return job


def _check_place(aggregator: str) -> None:
    """Raises StartError if no aggregator can be started here at this address."""
    if not is_local(aggregator):
        raise StartError(
            f"--aggregator {aggregator}: this machine does not have the address (`ip address` says what it has): run "
            f"`sumwire up` on the server that has it, or start the aggregator there: --ssh {aggregator}"
        )
    child.check_free(
        aggregator, "or run this one on another server, or with another address of this one: --aggregator ADDRESS "
        "--listen ADDRESS"
    )  # fmt: skip


def _own_address(job: Mapping[str, Any]) -> str:
    return source_towards(str(job["addresses"][0]["ip"]))


def _command(options: Up) -> list[str]:
    report = ("--report", f"{_REPORT_S:g}", *options.logging)
    return child.by_ssh(options.ssh, options.remote_command, *report) if options.ssh else child.here(*report)


def _keep_aggregator(command: Sequence[str], job: Mapping[str, Any], say: Say, ready: threading.Event) -> None:
    """Run an aggregator, and another one whenever it ends: its slots are empty then, and workers return to it.

    ``ready`` is set while one serves. Raises StartError if several end one after the other, and after the first if it
    does not become ready.
    """
    failures = 0
    while True:
        with Aggregator(command, job, say) as running:
            ready.set()
            # One that has served for long starts the count anew.
            lasted = not running.ended.wait(_WAITS_S[-1])
            running.ended.wait()
            ready.clear()
        failures = 0 if lasted else failures + 1
        if failures == len(_WAITS_S):
            raise StartError(f"the aggregator has ended {failures} times; see its lines above, then start it again")
        say(f"the aggregator has ended; the next one starts in {_WAITS_S[failures]:g} s")
        threading.Event().wait(_WAITS_S[failures])


def _switches(options: Up, file: Path, say: Say) -> dict[str, Any]:
    """Apply a configuration, and return its job."""
    say(f"applying {file}")
    _controller("apply", str(file))
    text = _controller("job-file", "--job", options.wanted.name, str(file))
    try:
        job = json_of(text)
    except OutsideError as error:
        raise StartError(f"{CONTROLLER} job-file wrote no job ({error}): install the same version of both") from error
    return completed(public(job), where=str(file))


def _controller_here() -> str:
    """The controller's program: that on PATH, or else that of this Python's environment, which need not be on it."""
    beside = Path(sys.executable).with_name(CONTROLLER)
    return shutil.which(CONTROLLER) or (str(beside) if beside.exists() else CONTROLLER)


def _controller(*words: str) -> str:
    """What a command of the controller prints."""
    command = [_controller_here(), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMMAND_S)
    except FileNotFoundError as error:
        raise StartError(f"{CONTROLLER} is not installed: install it with pip install 'sumwire[controller]'") from error
    except subprocess.TimeoutExpired as error:
        raise StartError(f"{CONTROLLER} {words[0]} is not done after {_COMMAND_S:.0f} s: see the switches") from error
    if done.returncode:
        raise StartError(f"{CONTROLLER} {words[0]}: {done.stderr.strip()}; mend that, then run `sumwire up` again")
    return done.stdout


def _keep_watch(command: Sequence[str]) -> None:
    """Watch the switches, until the process is told to end."""
    with subprocess.Popen(command) as process:
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
