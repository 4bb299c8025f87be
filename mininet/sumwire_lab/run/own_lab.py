# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A lab for a user's own work: a script on every host, Mininet's prompt, or a lab that stays up."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

from nativelib import programs

from sumwire_lab.network import switches
from sumwire_lab.network.fabric import HostPlan
from sumwire_lab.network.topology import MininetNetwork, require_tools
from sumwire_lab.options.run_options import RunOptions, ScriptOptions
from sumwire_lab.run.conditions import LinkMeter, apply_conditions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.study.workers import MASTER_PORT
from sumwire_lab.system import leftovers
from sumwire_lab.system.processes import killed_after, wait_all

RECORD: Final = "script.json"


def run(
    options: RunOptions, chosen: ScriptOptions, results: Path, say: Say, detached: DetachedLab | None = None
) -> tuple[dict[str, Any], Path]:
    """Open the lab, and run what the options ask for. Returns the record of the script, and the run's folder.

    The switches have one job of all hosts, with every op, and SUMWIRE_JOB names its file: `sumwire.init()` finds it.
    Raises LabError, KeyboardInterrupt.
    """
    require_tools()
    kind = switches.choose_for(options)
    if kind == "soft":
        options = replace(options, engine=switches.choose_engine(options.engine))
    folder = new_folder(results)
    for line in leftovers.clean():
        say(f"removed from an earlier run: {line}")
    record: dict[str, Any] = {}
    with interruptible(), ExitStack() as stack:
        session = stack.enter_context(open_session(options, kind, folder / "lab"))
        applied = stack.enter_context(apply_conditions(session, options.conditions))
        say(f"{options.workers} hosts, {options.link.mbit:g} Mbit/s links, {options.topology}, {kind}: the lab is up")
        meter = LinkMeter(session)
        meter.begin()
        seconds = _work(session, chosen, options.deadline_s, say)
        if chosen.script is not None:
            record = {
                "script": str(chosen.script),
                "arguments": list(chosen.arguments),
                "workers": options.workers,
                "topology": options.topology,
                "switch": kind,
                "engine": options.engine if kind == "soft" else None,
                "seconds": seconds,
                "links": meter.finish(seconds, applied),
            }
            (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n")
        if detached is not None:
            _leave(session, folder, say)
            session.ledger.keep(folder.resolve())
            detached.wait(folder)
    return record, folder


def _work(session: Session, chosen: ScriptOptions, deadline_s: float, say: Say) -> float:
    """The script and the prompt, side by side. Returns the seconds that the script took."""
    began = time.monotonic()
    with killed_after() as working:
        if chosen.script is not None:
            for rank, host in enumerate(session.fabric.hosts):
                command = programs.script(chosen.script.resolve(), *chosen.arguments)
                name = f"worker{rank}"
                working[name] = session.start(name, host, command, **environment(session, rank, host))
        if chosen.cli:
            prompt(session.network)
        if working:
            said = Lines(session.log("worker0"), say)
            wait_all(working, session.serving(), session.logs(working), deadline_s, said.tick)
            said.tick()
    return time.monotonic() - began


def environment(session: Session, rank: int, host: HostPlan) -> dict[str, str]:
    """Return a script's environment: the user's own variables, those that torchrun would set for a rank on a separate
    host, and the path of the job's file."""
    hosts = session.fabric.hosts
    told = {
        "RANK": rank, "WORLD_SIZE": len(hosts), "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": rank,
        "MASTER_ADDR": hosts[0].ip, "MASTER_PORT": MASTER_PORT, "GLOO_SOCKET_IFNAME": host.host_interface,
        "OMP_NUM_THREADS": 1,
    }  # fmt: skip
    job = {} if session.job_file is None else {"SUMWIRE_JOB": str(session.job_file.resolve())}
    return programs.script_environment({**{name: str(value) for name, value in told.items()}, **job})


class Lines:
    """Prints the lines of a log while it grows."""

    def __init__(self, path: Path, say: Say) -> None:
        self._path = path
        self._say = say
        self._offset = 0

    def tick(self) -> None:
        """Print new lines; a line without its end waits."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self._say(line)


def _leave(session: Session, folder: Path, say: Say) -> None:
    say("the lab is left standing; `sumwire-lab down` takes it down")
    for line in doors(session.fabric.hosts, session.network.pid):
        say(line)
    say(f"job file: {session.job_file}; logs: {folder}")


def doors(hosts: Iterable[HostPlan], pid_of: Callable[[HostPlan], int]) -> list[str]:
    """Return a line for each host: its address, and the command that enters it."""
    return [f"{host.name} {host.ip}: nsenter --net=/proc/{pid_of(host)}/ns/net -- bash" for host in hosts]


_TERMINATED: Final = 143


def prompt(network: MininetNetwork) -> None:
    """Read commands, such as `h1 ping h2`, until `exit` or the end of the input. Ctrl-C ends a command, not the lab."""
    from mininet.cli import CLI
    from mininet.log import lg, setLogLevel

    setLogLevel("output")
    # A library may have made a root logger, which would say everything once more.
    lg.propagate = False
    addresses = {host.name: host.ip for host in network.fabric.hosts}

    class Prompt(CLI):  # type: ignore[misc]
        def default(self, line: str) -> None:
            """A command of a host. Mininet would ask ifconfig for addresses, which many machines do not have."""
            super().default(with_addresses(line, addresses))

    with _interrupting_commands():
        Prompt(network.mininet)


def with_addresses(line: str, addresses: Mapping[str, str]) -> str:
    """Replace hosts' names by addresses in a line, except for the first word, which names the host to run on.

    Example: `h1 ping h2` becomes `h1 ping 10.0.0.2`.
    """
    first, *rest = line.split(" ")
    return " ".join([first, *(addresses.get(word, word) for word in rest)])


@contextmanager
def _interrupting_commands() -> Iterator[None]:
    """Within the block Ctrl-C is Mininet's, and SIGTERM ends the program with everything in order."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(_TERMINATED)

    before: dict[int, Any] = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, end),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


LOG: Final = "kept.log"
_FAILED: Final = 1


class DetachedLab:
    """The child process's means to leave the lab running."""

    def __init__(self, told: int) -> None:
        self._told = told

    def wait(self, folder: Path) -> None:
        """Let the parent end with status 0, and wait until somebody asks this process to end. Output goes to
        `kept.log`."""
        os.setsid()
        # Before the parent ends: who waits for it may take the lab down at once.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        with (folder / LOG).open("wb") as log:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor in (1, 2):
                os.dup2(log.fileno(), descriptor)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.write(self._told, bytes([0]))
        os.close(self._told)
        signal.sigwait({signal.SIGTERM})


def in_background(make: Callable[[DetachedLab], int]) -> int:
    """Call `make` in a child. Returns its exit status, or 0 once it leaves its lab up.

    Call it before there are threads.
    """
    hears, tells = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hears)
        status = _FAILED
        try:
            status = make(DetachedLab(tells))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(tells)
    # Ctrl-C goes to the child as well, which then takes everything down.
    before: dict[int, Any] = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM)),
    }
    try:
        with os.fdopen(hears, "rb") as told:
            stands = told.read(1)
        return 0 if stands else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
