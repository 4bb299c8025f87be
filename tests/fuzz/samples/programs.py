# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sample programs of p4c: compiled, run in both engines with their packet tests and mutated packets, and served."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from p4.v1 import p4runtime_pb2
from softswitch.errors import DeviceError, UnsupportedProgramError
from softswitch.native.emit import emit_c
from softswitch.p4runtime.errors import BatchError, P4RuntimeError
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.python.emit import emit_program
from softswitch.switch import EngineChoice, SoftSwitch

from fuzz.p4runtime.pipelines import service_with_primary
from fuzz.p4runtime.target import CPU_PORT, DEVICE_ID, config_of
from fuzz.samples.bmv2 import LEAST_BYTES, PORTS, Wires, on_the_wire, running
from fuzz.samples.stf import Expect, PacketTestError, Sample, Send, Statement, StfError, StfRunner, parse

COMPILER = "p4c-bm2-ss"
_SECONDS = 120.0
_OTHER_TARGETS = ("psa.p4", "pna.p4", "ebpf_model", "ubpf", "dpdk", "tofino", "tna.p4")
_STAGES = ("-first", "-frontend", "-midend")


def sources(checkout: Path) -> Iterator[tuple[str, Path, Path]]:
    """Names, programs, and where their packet tests would lie. Raises FileNotFoundError if this is no checkout."""
    data = checkout / "testdata"
    if not (data / "p4_16_samples").is_dir():
        raise FileNotFoundError(f"{checkout}: no checkout of p4c, which has testdata/p4_16_samples; give its folder")
    for source in sorted((data / "p4_16_samples").rglob("*.p4")):
        text = source.read_text(errors="replace")
        if not any(word in text or word in source.name for word in _OTHER_TARGETS):
            name = str(source.relative_to(data / "p4_16_samples").with_suffix(""))
            yield name, source, source.with_suffix(".stf")
    outputs, tests = data / "p4_14_samples_outputs", data / "p4_14_samples"
    for source in sorted(outputs.rglob("*.p4")):
        if not source.stem.endswith(_STAGES):
            own = source.relative_to(outputs).with_suffix("")
            yield f"p4_14/{own}", source, (tests / own).with_suffix(".stf")


def compile_samples(
    checkout: Path, into: Path, say: Callable[[str], None], *, only_tested: bool = False
) -> list[Sample]:
    """The programs that compile for bmv2's simple_switch. What lies in ``into`` is not compiled again.

    ``only_tested``: those beside which a packet test lies.

    Raises FileNotFoundError without a compiler or a checkout.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise FileNotFoundError(f"{COMPILER} is not on PATH; build p4c, or name its folder in PATH")
    into.mkdir(parents=True, exist_ok=True)
    found = [source for source in sources(checkout) if source[2].exists() or not only_tested]
    done = 0

    def compiled(entry: tuple[str, Path, Path]) -> Sample | None:
        nonlocal done
        name, source, test = entry
        target = into / f"{name.replace('/', '__')}.json"
        refused = target.with_suffix(".refused")
        described = target.with_suffix(".p4info.txtpb").exists() and target.exists()
        if not described and not refused.exists() and not _compile(compiler, checkout, source, target):
            refused.touch()
        done += 1
        if done % 200 == 0:
            say(f"{done} of {len(found)} programs given to p4c")
        return Sample(name, source, target, test if test.exists() else None) if target.exists() else None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [sample for sample in pool.map(compiled, found) if sample is not None]


def _compile(compiler: str, checkout: Path, source: Path, target: Path) -> bool:
    made, info = target.with_suffix(".made"), target.with_suffix(".p4info.txtpb")
    includes = ["-I", str(checkout / "p4include"), "-I", str(source.parent)]
    command = [compiler, "--std", "p4-16", "--arch", "v1model", *includes, "-o", str(made), str(source)]
    if not _done([*command, "--p4runtime-files", str(info)]):
        if not _done(command):
            made.unlink(missing_ok=True)
            return False
        info.write_text("")
    if made.exists():
        made.replace(target)
    return target.exists()


def _done(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


_KINDS = (
    "action_profile_member",
    "action_profile_group",
    "counter_entry",
    "meter_entry",
    "register_entry",
    "value_set_entry",
    "digest_entry",
)


class Served:
    """The service of a P4Runtime server, with one client, which is the primary, and without a connection."""

    def __init__(self) -> None:
        self._service = service_with_primary(CPU_PORT)

    def refusal(self, sample: Sample) -> str:
        """Why a sample's pipeline, or a read of all that it has, is refused. Empty if neither is."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=DEVICE_ID, action=3)
        request.election_id.low = 1
        request.config.CopyFrom(config_of(sample.p4info))
        try:
            self._service.set_pipeline(request)
            reading = self._service.read(p4runtime_pb2.ReadRequest(device_id=DEVICE_ID, entities=_everything()))
            while reading.piece() is not None:
                pass
        except BatchError as error:
            return f"BatchError: {error}"
        except P4RuntimeError as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def end(self) -> None:
        self._service.end()


def _everything() -> list[Any]:
    """One request for each kind of entity, of whatever is there. Direct counters and meters are those of all tables."""
    asked = [p4runtime_pb2.Entity() for _ in range(len(_KINDS) + 5)]
    for entity, kind in zip(asked, _KINDS, strict=False):
        getattr(entity, kind).SetInParent()
    table, direct_counters, direct_meters, groups, sessions = asked[len(_KINDS) :]
    table.table_entry.SetInParent()
    direct_counters.direct_counter_entry.table_entry.SetInParent()
    direct_meters.direct_meter_entry.table_entry.SetInParent()
    groups.packet_replication_engine_entry.multicast_group_entry.SetInParent()
    sessions.packet_replication_engine_entry.clone_session_entry.SetInParent()
    return asked


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
    with running(sample.json, wired, folder):
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
