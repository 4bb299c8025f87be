# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire up`: makes a job, brings it to an aggregator or to switches, serves its description, and keeps it there."""

from __future__ import annotations

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

from nativelib import UntrustedError, programs
from sumwire_protocol.outside import OutsideError, json_of

from sumwire.config import parse_job
from sumwire.config.job_config import ThcParameters
from sumwire.start.child import Say
from sumwire.start.description import completed, public, source_towards
from sumwire.start.errors import StartError
from sumwire.start.keeping import Program, keep
from sumwire.start.programs import Up, plan
from sumwire.start.service import PORT, serving

CONTROLLER: Final = "sumwire-controller"
_COMMAND_S: Final = 120.0
_EVERY_ADDRESS: Final = "0.0.0.0"


def up(options: Up, say: Say) -> None:
    """Run until Ctrl-C or SIGTERM. ``say`` gets lines for people.

    Raises ServiceError, StartError, UsageError and ConfigError.
    """
    ready, say = threading.Event(), _line_by_line(say)
    programs: list[Program] = []
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
        say(f"the job is at http://{address}:{port}; in each script: job = sumwire.init()")
        say(_hint(address, port))
        if options.switches is None:
            keep(programs, job, say, ready)
        else:
            _keep_watch([_controller_here(), *options.logging, "watch", str(options.switches)])
    say("stopped")


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
    """A job in one line, and each leaf of a tree in one more."""
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


def _switches(options: Up, file: Path, say: Say) -> dict[str, Any]:
    """Apply a configuration, and return its job."""
    if options.racks or options.leaves is not None:
        raise StartError(f"--tree, --rack: the switches of {file} may have a tree of their own: leave both out")
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
