# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Holds the soft switch's trace to bmv2's log: ``python -m fuzz.samples.traced P4C --work FOLDER --json FILE``.

The packet tests (STF) of p4c's v1model samples run on the soft switch and, with the same commands and packets, on
bmv2's simple_switch, on veth pairs. Mutated packets follow; programs of the tests that have registers get only those.
Frames below 14 bytes get zeros behind them, as a packet socket sends no shorter ones. Events of each packet are
compared, and after the last packet the registers, which both command lines read. Needs root, and a bmv2 with its
logging macros and Thrift.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from helpers.softswitch.compile_programs import PROGRAMS
from helpers.softswitch.veths import ip
from nativelib import programs
from softswitch.cli_door.commands import Commander
from softswitch.cli_door.server import CommandDoor
from softswitch.errors import DeviceError
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.switch import SoftSwitch
from sumwire_lab.network.switches import free_tcp_port

from fuzz.samples import bmv2
from fuzz.samples.logs import Log, Passes, passes_of
from fuzz.samples.programs import NOW_US, compile_samples, mutated
from fuzz.samples.stf import Expect, PacketTestError, Sample, Send, Statement, StfError, StfRunner, parse

COMMAND, COMMAND_LINE = "simple_switch", "simple_switch_CLI"
_EVENTS_S = 3.0  # in which the events of a packet come to the log
_CLI_S = 60.0
_REGISTER = re.compile(r"(?:RuntimeCmd: )*(\S+= .*)")
_WITH_REGISTERS = ("corner", "wide")
_ONLY_MUTATED = 10  # times as many packets for a program without a packet test
_CELLS_MOST = 4096  # of a register that is read whole


class NoLogError(Exception):
    """bmv2 does not log what happens to packets."""


@dataclass
class Found:
    """By sample. ``differences``: the first packet whose events differ. ``registers``: arrays that were read, and
    ``register_differences`` what the two command lines say of them."""

    samples: list[str] = field(default_factory=list)
    packets: int = 0
    events: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    differences: dict[str, str] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=dict)
    register_differences: dict[str, str] = field(default_factory=dict)


def missing() -> str:
    """What this machine lacks, empty if nothing."""
    for name in (COMMAND, COMMAND_LINE):
        if shutil.which(name) is None:
            return f"{name} is not on PATH"
    return "" if os.geteuid() == 0 else "bmv2's ports need root"


class Bmv2:
    """A running simple_switch and its log."""

    def __init__(self, sample: Sample, wired: bmv2.Wires, log: Path, thrift_port: int) -> None:
        described = json.loads(sample.json.read_text())
        self._headers = {header["id"]: header["name"] for header in described["headers"]}
        self._wired = wired
        self._log = log
        self._thrift_port = thrift_port

    def tell(self, commands: Sequence[str]) -> str:
        """Carry out commands of the command line, and return what it prints."""
        if not commands:
            return ""
        done = subprocess.run(
            [COMMAND_LINE, "--thrift-port", str(self._thrift_port)],
            input="\n".join(commands) + "\n", capture_output=True, text=True, check=False, timeout=_CLI_S,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        if done.returncode:
            raise bmv2.NoBmv2Error(f"{COMMAND_LINE} ended with {done.returncode}: {done.stderr.strip()[-200:]}")
        return done.stdout

    def log(self) -> Log:
        return Log(self._log.read_text(errors="replace"), self._headers)

    def events(self, number: int, wanted: Passes) -> Passes:
        """The passes of packet ``number``, as soon as they are ``wanted``, or what there is of them after a while."""
        deadline = time.monotonic() + _EVENTS_S
        while True:
            log = self.log()
            found = log.passes(number) if number in log.ports else []
            if found == wanted or time.monotonic() > deadline:
                return found
            self._wired.drain()


@contextmanager
def running(sample: Sample, wired: bmv2.Wires, folder: Path) -> Iterator[Bmv2]:
    """simple_switch with a sample, which logs to a file of the folder. Raises NoBmv2Error if it does not start."""
    port = free_tcp_port()
    ports = [word for number in bmv2.PORTS for word in ("-i", f"{number}@{wired.prefix}s{number}")]
    command = [COMMAND, "--thrift-port", str(port), "--log-console", "-L", "trace", *ports, str(sample.json)]
    log = folder / "log"
    with log.open("wb") as opened, subprocess.Popen(command, stdout=opened, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + _CLI_S
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise bmv2.NoBmv2Error(f"{COMMAND} ended with {process.poll()} before it listened")
                wired.drain()
            yield Bmv2(sample, wired, log, port)
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with closing(socket.socket()) as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _statements(sample: Sample, mutations: int) -> list[Statement]:
    """Those of the packet test, and then mutated packets. Raises StfError and PacketTestError."""
    known: list[Statement] = parse(sample.test.read_text()) if sample.test is not None else [Send(1, bytes(64))]
    sent = [each for each in known if isinstance(each, Send)]
    if not sent:
        raise PacketTestError("the test sends nothing")
    generator = random.Random(sample.name)
    mutations *= 1 if sample.test is not None else _ONLY_MUTATED
    drawn = [mutated(generator.choice(sent), generator) for _ in range(mutations)]
    known += [Send(port if port in bmv2.PORTS else sent[0].port, frame) for port, frame in drawn]
    if any(isinstance(each, Send) and each.port not in bmv2.PORTS for each in known):
        raise PacketTestError("a packet comes in at a port that bmv2 does not have here")
    return known


def compare(sample: Sample, wired: bmv2.Wires, folder: Path, found: Found, mutations: int) -> None:
    """Run one packet test on both. Raises NoLogError, NoBmv2Error, StfError, PacketTestError and DeviceError."""
    statements = _statements(sample, mutations)
    told: list[dict[str, Any]] = []
    switch = SoftSwitch(sample.json.read_text(), seed=1, engine="python", clock=lambda: NOW_US, trace=told.append)
    runner = StfRunner(switch)
    with running(sample, wired, folder) as theirs:
        waiting: list[str] = []
        for statement in statements:
            if isinstance(statement, Expect):
                continue
            if not isinstance(statement, Send):
                waiting += filter(None, [runner.write(statement)])
                continue
            theirs.tell(waiting)
            waiting.clear()
            frame = statement.frame.ljust(bmv2.LEAST_BYTES, b"\0")
            expected = bmv2.on_the_wire(switch.process(statement.port, frame))
            wired.answers(statement.port, frame, len(expected))
            _compare_packet(sample.name, theirs, told, found)
            if sample.name in found.differences:
                return
        theirs.tell(waiting)
        found.samples.append(sample.name)
        _compare_registers(sample.name, switch, theirs, folder, found)


def _compare_packet(name: str, theirs: Bmv2, told: Sequence[dict[str, Any]], found: Found) -> None:
    mine = passes_of(told[-1])
    log = theirs.events(len(told) - 1, mine)
    if not log and not found.packets:
        raise NoLogError(f"this {COMMAND} logs nothing of packets: build bmv2 with its logging macros")
    found.packets += 1
    for event in (event for one in mine for event in one):
        found.events[event[0]] = found.events.get(event[0], 0) + 1
    if log != mine:
        found.differences[name] = f"packet {len(told)}: {_first_difference(mine, log)}"


def _first_difference(mine: Passes, theirs: Passes) -> str:
    for number in range(max(len(mine), len(theirs))):
        a = mine[number] if number < len(mine) else []
        b = theirs[number] if number < len(theirs) else []
        for at in range(max(len(a), len(b))):
            ours, other = a[at : at + 1], b[at : at + 1]
            if ours != other:
                return f"pass {number}, event {at}: trace {ours}, bmv2 {other}, after {a[max(0, at - 2) : at]}"
    return "none"


def _compare_registers(name: str, switch: SoftSwitch, theirs: Bmv2, folder: Path, found: Found) -> None:
    registers = switch.loaded.program.registers
    commands = [f"register_read {each}{'' if of.size <= _CELLS_MOST else ' 0'}" for each, of in registers.items()]
    if not commands:
        return
    path = folder / "cli.sock"
    with CommandDoor(path, None) as door:
        door.open(Commander(switch, P4RuntimeService(switch, 0, None, None), {}))
        mine = subprocess.run(
            programs.module("softswitch.cli_door", "--cli-socket", str(path)),
            input="\n".join(commands) + "\n", capture_output=True, text=True, check=True, timeout=_CLI_S,
        ).stdout  # fmt: skip
    said = [_REGISTER.findall(text) for text in (mine, theirs.tell(commands))]
    found.registers[name] = len(said[0])
    if said[0] != said[1] or len(said[0]) != len(commands):
        found.register_differences[name] = f"softswitch-cli {said[0]}, {COMMAND_LINE} {said[1]}"


def run(samples: Sequence[Sample], mutations: int, say: Callable[[str], None]) -> Found:
    """Raises NoLogError."""
    found = Found()
    ip("link", "set", "lo", "up")
    with bmv2.wires() as wired, tempfile.TemporaryDirectory(prefix="softswitch-traced-") as folder:
        for number, sample in enumerate(samples, 1):
            try:
                compare(sample, wired, Path(folder), found, mutations)
            except (bmv2.NoBmv2Error, StfError, PacketTestError, DeviceError) as error:
                found.left_out[sample.name] = str(error)
            say(f"{number} of {len(samples)}: {sample.name}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, 1 where events or registers differ, 2 where this machine lacks something.

    Raises FileNotFoundError without a compiler or a checkout.
    """
    parser = argparse.ArgumentParser(prog="python -m fuzz.samples.traced", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of p4c")
    parser.add_argument("--work", type=Path, required=True, help="where compiled programs are kept")
    parser.add_argument("--json", type=Path, help="write what was found there")
    parser.add_argument("--only", default="", help="samples whose name has this in it")
    parser.add_argument("--every", type=int, default=1, help="only every N-th sample, %(default)s")
    parser.add_argument("--mutations", type=int, default=5, help="mutated packets after each packet test, %(default)s")
    options = parser.parse_args(arguments)

    def say(text: str) -> None:
        sys.stderr.write(f"traced: {text}\n")

    lacking = missing()
    if not lacking:
        samples = compile_samples(options.checkout, options.work, say, only_tested=True)
        own = ((name, PROGRAMS / f"{name}.json") for name in _WITH_REGISTERS)
        samples += [Sample(f"own/{name}", file.with_suffix(".p4"), file, None) for name, file in own]
        samples = [sample for sample in samples if options.only in sample.name][:: options.every]
        try:
            record = asdict(run(samples, options.mutations, say))
        except NoLogError as error:
            lacking = str(error)
    if lacking:
        record = {"absent": lacking}
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if lacking:
        say(lacking)
        return 2
    different = {**record["differences"], **record["register_differences"]}
    for name, why in different.items():
        say(f"{name}: {why}")
    sys.stdout.write(
        f"{len(record['samples'])} samples, {record['packets']} packets, {sum(record['events'].values())} events,"
        f" {sum(record['registers'].values())} registers: {len(different)} differences\n"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
