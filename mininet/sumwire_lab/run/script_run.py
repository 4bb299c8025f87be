# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A lab for somebody's own work: a script on every host, Mininet's prompt, or a lab that is left standing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from nativelib import programs

from sumwire_lab.network import switches
from sumwire_lab.network.fabric import HostPlan
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import RunOptions, ScriptOptions
from sumwire_lab.run.apply_conditions import apply_conditions
from sumwire_lab.run.link_use import LinkMeter
from sumwire_lab.run.prompt import prompt
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.run.standing import Standing
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system import leftovers
from sumwire_lab.system.processes import killed_after, wait_all

RECORD: Final = "script.json"
# torchrun's own. The first host has a network namespace of its own, so it is free.
_MASTER_PORT: Final = 29500


def run(
    options: RunOptions, chosen: ScriptOptions, results: Path, say: Say, standing: Standing | None = None
) -> tuple[dict[str, Any], Path]:
    """Open the lab, and do there what is asked for. Returns the record of the script, and the run's folder.

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
        if standing is not None:
            _leave(session, folder, say)
            session.ledger.keep(folder.resolve())
            standing.wait(folder)
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
    """What torchrun would tell a rank with a host of its own, and where the job's file is."""
    hosts = session.fabric.hosts
    told = {
        "RANK": rank, "WORLD_SIZE": len(hosts), "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": rank,
        "MASTER_ADDR": hosts[0].ip, "MASTER_PORT": _MASTER_PORT, "GLOO_SOCKET_IFNAME": host.host_interface,
        "OMP_NUM_THREADS": 1,
    }  # fmt: skip
    job = {} if session.job_file is None else {"SUMWIRE_JOB": str(session.job_file.resolve())}
    return {**{name: str(value) for name, value in told.items()}, **job}


class Lines:
    """Says the lines of a log while it grows."""

    def __init__(self, path: Path, say: Say) -> None:
        self._path = path
        self._say = say
        self._offset = 0

    def tick(self) -> None:
        """Say what is new; a line without its end waits."""
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
    """A line for each host: its address, and the command that enters it."""
    return [f"{host.name} {host.ip}: nsenter --net=/proc/{pid_of(host)}/ns/net -- bash" for host in hosts]
