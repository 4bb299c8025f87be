# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Wrong set-ups, one mistake at a time. Measures what a worker or the controller reports at its first operation, and
when. Also runs `sumwire doctor` on wrong set-ups and on right ones, over each kind of switch and in a tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sumwire_controller
import yaml
from nativelib import programs
from sumwire_protocol import constants as p4
from sumwire_protocol import program

from sumwire_lab.errors import DeadlineError, MissingToolError, ProcessDiedError
from sumwire_lab.faults import repeated_runs, setup_workers
from sumwire_lab.faults.cases import FaultCase
from sumwire_lab.faults.repeated_runs import SumsTask
from sumwire_lab.faults.testbed import FaultTestbed, open_testbed
from sumwire_lab.network import control_plane, switches
from sumwire_lab.options.run_options import AGGREGATOR
from sumwire_lab.study.workers import answer_in

SETUPS_ROW: Final = "setups"
WORKERS: Final = 2
P4_SWITCHES: Final = ("soft", "bmv2")
EVERYWHERE: Final = (*P4_SWITCHES, AGGREGATOR)
NFT: Final = "nft"
SECOND_RUN: Final = "second-run"
UNKNOWN_JOB: Final = 23
OTHER_ADDRESS: Final = "10.0.0.77"
OTHER_PORT: Final = 20_000
SMALL_MTU: Final = 600
_LIMIT_S: Final = 120.0
# Longer than any target, so that a late error is seen, and said to be late.
_ATTEMPT_S: Final = 45.0
_SUMS: Final = "sums"
_LOOK_SECONDS: Final = 0.02

Attempt = dict[str, Any]
"""`error`: its type or None; `text`; `seconds`."""


@dataclass(frozen=True)
class Mistake:
    """The present mistake: the workers' job file (None for the session's), the revision of the switch's program for
    which hosts claim to be built, and the compiled program given to the controller."""

    job_file: Path | None = None
    revision: int | None = None
    p4: Path | None = None


@dataclass(frozen=True)
class Setup:
    """A mistake, and the switches with which it can be made."""

    make: Callable[[FaultTestbed], Mistake]
    switches: tuple[str, ...] = EVERYWHERE


def setup_cases(switch: str, seeds: int) -> list[FaultCase]:
    """Return one case of each set-up that is possible with the switch."""
    return [
        FaultCase(SETUPS_ROW, switch, 1, _LIMIT_S, name) for name, setup in SETUPS.items() if switch in setup.switches
    ]


def carry_out_setup(case: FaultCase, folder: Path) -> dict[str, Any]:
    """Carry out a case, and return the account of the attempt."""
    with open_testbed(case, folder, workers=WORKERS) as testbed:
        return attempt(testbed, SETUPS[case.variant].make(testbed))


# -- attempts ------------------------------------------------------------------------------------------


def attempt(testbed: FaultTestbed, mistake: Mistake) -> Attempt:
    """Let both workers try. Returns the report of worker 0, or with a wrong program that of the controller."""
    if mistake.p4 is not None:
        return _applied(testbed, mistake.p4)
    testbed.call("operations", setup_workers.operations, mistake.revision, job_file=mistake.job_file)
    return told(testbed.folder / "operations")


def _wait_until(there: Callable[[], bool], otherwise: str) -> None:
    """Return once `there()`. Raises DeadlineError with this text after a while."""
    end = time.monotonic() + _ATTEMPT_S
    while not there():
        if time.monotonic() > end:
            raise DeadlineError(otherwise)
        time.sleep(_LOOK_SECONDS)


def told(folder: Path, rank: int = 0) -> dict[str, Any]:
    """Wait for a worker's return value, and return it. Raises DeadlineError."""
    _wait_until((folder / f"answer{rank}.json").exists, f"no word from the worker after {_ATTEMPT_S:g} s")
    said: dict[str, Any] = answer_in(folder, rank)
    return said


def _applied(testbed: FaultTestbed, p4: Path) -> Attempt:
    command = programs.module("sumwire_controller.cli", "apply", "--p4", str(p4))
    began = time.monotonic()
    done = subprocess.run(
        [*command, str(testbed.folder / control_plane.CONFIGURATION)],
        check=False,
        capture_output=True,
        text=True,
        timeout=_ATTEMPT_S,
    )
    failed = None if done.returncode == 0 else f"exit status {done.returncode}"
    return {"error": failed, "text": done.stderr.strip(), "seconds": time.monotonic() - began}


def _changed(testbed: FaultTestbed, change: Callable[[dict[str, Any]], None]) -> Path:
    """The job file, changed."""
    assert testbed.session.job_file is not None
    content = json.loads(testbed.session.job_file.read_text())
    change(content)
    path = testbed.folder / "changed.json"
    path.write_text(json.dumps(content))
    return path


def _apply(testbed: FaultTestbed, change: Callable[[dict[str, Any]], None]) -> None:
    """Apply the session's configuration, changed; of a software aggregator, start it with the changed job file."""
    path = testbed.folder / "changed.yaml"
    name = control_plane.CONFIGURATION if testbed.switch.programmed else control_plane.SERVER_CONFIGURATION
    content = yaml.safe_load((testbed.folder / name).read_text())
    change(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    config = sumwire_controller.load_config(path)
    if testbed.switch.programmed:
        # A fresh switch, so that nothing stands in another controller's way.
        testbed.switch.kill()
        testbed.switch.start()
        sumwire_controller.apply(config)
    else:
        job = testbed.folder / "changed.json"
        job.write_text(sumwire_controller.job_json(config, control_plane.JOB))
        _restart_aggregator(testbed, str(job))


def _restart_aggregator(testbed: FaultTestbed, *arguments: str) -> None:
    server = testbed.session.fabric.server
    assert server is not None
    testbed.switch.kill()
    command = programs.module("sumwire.aggregator.cli", *switches.unprivileged(), *arguments)
    testbed.session.start("aggregator2", server, command)
    log = testbed.session.log("aggregator2")
    _wait_until(lambda: "ready:" in log.read_text(), "the aggregator does not start again")


# -- the mistakes --------------------------------------------------------------------------------------


def _no_apply(testbed: FaultTestbed) -> Mistake:
    testbed.switch.kill()
    testbed.switch.start()
    return Mistake()


def _unknown_job(testbed: FaultTestbed) -> Mistake:
    def change(job: dict[str, Any]) -> None:
        job["job"] = job["lanes"][0]["job"] = UNKNOWN_JOB

    return Mistake(_changed(testbed, change))


def _wrong_port(testbed: FaultTestbed) -> Mistake:
    """The configuration has the workers at each other's ports; a software aggregator listens on another UDP port."""
    if not testbed.switch.programmed:
        server = testbed.session.fabric.server
        assert server is not None
        _restart_aggregator(testbed, str(testbed.session.job_file), "--listen", f"{server.ip}:{OTHER_PORT}")
        return Mistake()

    def change(content: dict[str, Any]) -> None:
        first, second = content["workers"]
        first["port"], second["port"] = second["port"], first["port"]

    _apply(testbed, change)
    return Mistake()


def _wrong_address(testbed: FaultTestbed) -> Mistake:
    def change(job: dict[str, Any]) -> None:
        job["addresses"][0]["ip"] = OTHER_ADDRESS

    return Mistake(_changed(testbed, change))


def _wrong_worker(testbed: FaultTestbed) -> Mistake:
    def change(job: dict[str, Any]) -> None:
        first, second = job["addresses"]
        first["seat"], second["seat"] = second["seat"], first["seat"]

    return Mistake(_changed(testbed, change))


def _other_controller(testbed: FaultTestbed) -> Mistake:
    """Another controller has applied its own idea of the job, with another table."""

    def change(content: dict[str, Any]) -> None:
        (job,) = content["jobs"]
        job["thc"]["table"] = list(range(16))

    _apply(testbed, change)
    return Mistake()


def _firewall(testbed: FaultTestbed) -> Mistake:
    if shutil.which(NFT) is None:
        raise MissingToolError(f"{NFT} is not on PATH (Debian: nftables)")
    host = testbed.session.fabric.hosts[0]
    rules = (
        "add table inet closed",
        "add chain inet closed in { type filter hook input priority 0 ; }",
        f"add rule inet closed in udp dport {p4.SUMWIRE_PORT} drop",
        f"add rule inet closed in udp sport {p4.SUMWIRE_PORT} drop",
    )
    for rule in rules:
        testbed.session.network.run(host, [NFT, rule])
    return Mistake()


def _not_started(testbed: FaultTestbed) -> Mistake:
    testbed.switch.kill()
    return Mistake()


def _small_mtu(testbed: FaultTestbed) -> Mistake:
    host = testbed.session.fabric.hosts[0]
    testbed.session.network.run(host, ["ip", "link", "set", host.host_interface, "mtu", str(SMALL_MTU)])
    return Mistake()


def _second_run(testbed: FaultTestbed) -> Mistake:
    """While a run is under way, another one is started on the same hosts."""
    count = testbed.folder / _SUMS / "count0"
    # That of an earlier run in this testbed says nothing of this one.
    count.unlink(missing_ok=True)
    testbed.call(_SUMS, repeated_runs.add, SumsTask(1, None))
    _wait_until(lambda: count.exists() and count.stat().st_size > 0, "the first run does not begin")
    return Mistake()


def _wrong_p4info(testbed: FaultTestbed) -> Mistake:
    """The controller is given the P4Info of another program."""
    folder = testbed.folder / "p4"
    folder.mkdir()
    shutil.copy(program.JSON, folder)
    text = program.P4INFO.read_text()
    (folder / program.P4INFO_NAME).write_text(text.replace("admit_job", "admit_any"))
    testbed.switch.kill()
    testbed.switch.start()
    return Mistake(p4=folder)


def _other_version(testbed: FaultTestbed) -> Mistake:
    return Mistake(revision=int(vars(p4).get("PROGRAM_REVISION", 1)) - 1)


SETUPS: Final[Mapping[str, Setup]] = {
    "no-apply": Setup(_no_apply, P4_SWITCHES),
    "unknown-job": Setup(_unknown_job),
    "wrong-port": Setup(_wrong_port),
    "wrong-address": Setup(_wrong_address),
    "wrong-worker": Setup(_wrong_worker),
    "other-controller": Setup(_other_controller),
    "firewall": Setup(_firewall),
    "aggregator-not-started": Setup(_not_started, (AGGREGATOR,)),
    "small-mtu": Setup(_small_mtu),
    SECOND_RUN: Setup(_second_run),
    "wrong-p4info": Setup(_wrong_p4info, P4_SWITCHES),
    "other-version": Setup(_other_version),
}


DOCTOR_ROW: Final = "doctor"
RIGHT: Final = "right"
RIGHT_TREE: Final = "right-tree"
TREE: Final = "leaf-spine"
_TREE_WORKERS: Final = 4
_DOCTOR_LIMIT_S: Final = 120.0
_COMMAND_S: Final = 30.0
_ROUNDS: Final = 3


def doctor_cases(switch: str, seeds: int) -> list[FaultCase]:
    """Return every wrong set-up that is possible with the switch, and the right ones."""
    trees = [] if switch == AGGREGATOR else [RIGHT_TREE]
    wrong = [case.variant for case in setup_cases(switch, seeds)]
    return [FaultCase(DOCTOR_ROW, switch, 1, _DOCTOR_LIMIT_S, name) for name in (*wrong, RIGHT, *trees)]


def carry_out_doctor(case: FaultCase, folder: Path) -> dict[str, Any]:
    """Return the doctor's findings by worker; for a wrong set-up those on the first worker's host."""
    if case.variant in (RIGHT, RIGHT_TREE):
        tree = case.variant == RIGHT_TREE
        workers = _TREE_WORKERS if tree else WORKERS
        with open_testbed(case, folder, workers=workers, topology=TREE if tree else "star") as testbed:
            return {"examined": [examined(testbed, rank, Mistake()) for rank in range(workers)]}
    with open_testbed(case, folder, workers=WORKERS) as testbed:
        mistake = SETUPS[case.variant].make(testbed)
        found = _controller(testbed, mistake.p4) if mistake.p4 else examined(testbed, 0, mistake)
        undisturbed = _goes_on(testbed) if case.variant == SECOND_RUN else None
        return {"examined": [found], "undisturbed": undisturbed}


def _goes_on(testbed: FaultTestbed) -> bool:
    """Whether the run that is under way does more rounds of sums."""
    count = testbed.folder / _SUMS / "count0"
    before, end = count.stat().st_size, time.monotonic() + _COMMAND_S
    while count.stat().st_size <= before + _ROUNDS:
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def examined(testbed: FaultTestbed, rank: int, mistake: Mistake) -> dict[str, Any]:
    """Return the doctor's findings on a worker's host."""
    name = f"doctor{rank}"
    testbed.call(name, setup_workers.examined, mistake.revision, ranks=[rank], job_file=mistake.job_file)
    return told(testbed.folder / name, rank)


def _controller(testbed: FaultTestbed, p4: Path) -> dict[str, Any]:
    """The doctor's findings where the controller runs."""
    command = programs.module("sumwire.cli", "doctor", "--json", "--p4", str(p4), "--config")
    began = time.monotonic()
    done = subprocess.run(
        [*command, str(testbed.folder / control_plane.CONFIGURATION)],
        check=False,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
    )
    if not done.stdout:
        raise ProcessDiedError(f"sumwire doctor ended with {done.returncode}: {done.stderr[-500:]}")
    return {**json.loads(done.stdout), "seconds": time.monotonic() - began}
