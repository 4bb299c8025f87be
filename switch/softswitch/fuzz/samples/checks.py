# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of each sample: that it loads, that its packet test passes, and that the engines agree."""

from __future__ import annotations

import random
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from softswitch.errors import DeviceError, UnsupportedProgramError
from softswitch.fuzz.samples.bmv2 import LEAST_BYTES, PORTS, Wires, on_the_wire, running
from softswitch.fuzz.samples.compiled import Sample
from softswitch.fuzz.samples.runner import PacketTestError, StfRunner
from softswitch.fuzz.samples.served import Served
from softswitch.fuzz.samples.stf import Expect, Send, Statement, StfError, parse
from softswitch.native.emit import emit_c
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.python.emit import emit_program
from softswitch.switch import EngineChoice, SoftSwitch

NOW_US = 1000
_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)
Frames = list[tuple[int, bytes]]


@dataclass
class Findings:
    """By sample. ``passed``: engines whose packet test passed. ``wrong``: frames that a test did not expect.
    ``unserved``: programs that load, and why P4Runtime does not commit them, or does not answer a read of everything.

    ``crashes``: exceptions that no sample may cause. ``differences``: mutated packets after which engines differ.
    ``bmv2_differences``: those after which the last engine and bmv2 do.
    """

    loaded: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    served: list[str] = field(default_factory=list)
    unserved: dict[str, str] = field(default_factory=dict)
    tested: list[str] = field(default_factory=list)
    passed: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, list[str]] = field(default_factory=dict)
    crashes: dict[str, str] = field(default_factory=dict)
    packets: int = 0
    differences: dict[str, str] = field(default_factory=dict)
    bmv2_samples: list[str] = field(default_factory=list)
    bmv2_packets: int = 0
    bmv2_differences: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Beside:
    """Packets that ran beside bmv2, and the first difference; no packets if the test writes tables."""

    packets: int = 0
    difference: str = ""


def check_load(sample: Sample, found: Findings) -> ir.Program | None:
    """Load a program and emit the code of both engines; nothing is compiled."""
    try:
        program = load_program(sample.json.read_text())
        emit_c(program)
        emit_program(program)
    except UnsupportedProgramError as error:
        found.refused[sample.name] = str(error)
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what this looks for
        found.crashes[sample.name] = _told(error)
        return None
    found.loaded.append(sample.name)
    return program


def check_served(sample: Sample, served: Served, found: Findings) -> None:
    """Commit a program that loads with its P4Info, where p4c makes one, and read everything."""
    if not sample.p4info.read_text():
        return
    try:
        refusal = served.refusal(sample)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what this looks for
        found.crashes[f"{sample.name}, P4Runtime"] = _told(error)
        return
    if refusal:
        found.unserved[sample.name] = refusal
    else:
        found.served.append(sample.name)


def check_packets(
    sample: Sample, program: ir.Program, engines: Sequence[EngineChoice], mutations: int, found: Findings
) -> None:
    """Run the packet test on each engine, then ``mutations`` mutated packets on all of them."""
    assert sample.test is not None
    found.tested.append(sample.name)
    try:
        statements = parse(sample.test.read_text())
        switches = [_tested(sample.name, program, engine, statements, found) for engine in engines]
        _compare(sample.name, statements, switches, mutations, found)
    except (PacketTestError, StfError, DeviceError) as error:
        found.failed[sample.name] = f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what this looks for
        found.crashes[sample.name] = _told(error)


def _tested(
    name: str, program: ir.Program, engine: EngineChoice, statements: Sequence[Statement], found: Findings
) -> SoftSwitch:
    switch = SoftSwitch(program, seed=1, engine=engine, clock=lambda: NOW_US)
    outcome = StfRunner(switch).run(statements)
    if outcome.faults:
        found.wrong[f"{name}, {engine}"] = outcome.faults
    else:
        found.passed.setdefault(engine, []).append(name)
    return switch


def _compare(
    name: str, statements: Sequence[Statement], switches: Sequence[SoftSwitch], mutations: int, found: Findings
) -> None:
    sent = [statement for statement in statements if isinstance(statement, Send)] or [Send(1, bytes(64))]
    generator = random.Random(name)
    for _ in range(mutations):
        port, frame = mutated(generator.choice(sent), generator)
        answers = [switch.process(port, frame) for switch in switches]
        found.packets += 1
        if any(answer != answers[0] for answer in answers[1:]):
            found.differences[name] = f"port {port}, {frame.hex()}: {answers}"
            return


def compare_with_bmv2(sample: Sample, wired: Wires, folder: Path, *, engine: EngineChoice, mutations: int) -> Beside:
    """Mutated packets of a sample whose test writes no table, through an engine and through bmv2.

    Raises NoBmv2Error.
    """
    assert sample.test is not None
    statements = parse(sample.test.read_text())
    if any(not isinstance(statement, Send | Expect) for statement in statements):
        return Beside()
    sent = [statement for statement in statements if isinstance(statement, Send)] or [Send(1, bytes(64))]
    switch = SoftSwitch(sample.json.read_text(), seed=1, engine=engine, clock=lambda: NOW_US)
    generator, packets = random.Random(sample.name), 0
    with running(sample, wired, folder):
        for _ in range(mutations):
            port, frame = mutated(generator.choice(sent), generator)
            if port not in PORTS or len(frame) < LEAST_BYTES:
                continue
            packets += 1
            expected = on_the_wire(switch.process(port, frame))
            answers = wired.answers(port, frame, len(expected))
            if answers != expected:
                return Beside(packets, f"port {port}, {frame.hex()}: {expected}, bmv2 {answers}")
    return Beside(packets)


def mutated(sent: Send, generator: random.Random) -> tuple[int, bytes]:
    """A packet of the test with some bytes changed, cut or grown."""
    data = bytearray(sent.frame)
    for _ in range(generator.choice((1, 1, 2, 4))):
        kind = generator.randrange(6)
        if kind == 0:
            del data[generator.randint(0, len(data)) :]
        elif kind == 1:
            data += generator.randbytes(generator.randrange(1, 40))
        elif data:
            at = generator.randrange(len(data))
            data[at] = generator.choice((*_EXTREMES, generator.randrange(256), data[at] ^ 1 << generator.randrange(8)))
    return sent.port if generator.random() < 0.9 else generator.randrange(511), bytes(data)


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-3:])[-1500:]
