# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make bench-switch`: measures packets per second into a switch over veth pairs.

Contenders are both engines of the soft switch, and bmv2. The native engine runs twice: with packets that come one by
one, and with trains. A packet counts if the switch's verdict is FIRST, ADD or LAST; the time is that of the load
generator.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire_protocol import constants as p4
from sumwire_protocol.ops import JUMBO

from sumwire_lab.bench.benchmark import Bench, Row, Rows
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.load import generator
from sumwire_lab.load.generator import LoadSpec
from sumwire_lab.load.malformed import Endpoints
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric, plan
from sumwire_lab.network.shaping import mtu_command, off_command
from sumwire_lab.network.switches import fitted
from sumwire_lab.network.topology import no_ipv6_command
from sumwire_lab.options.bench_options import PACKET_OPS, SwitchBenchOptions
from sumwire_lab.options.run_options import JUMBO_MTU, LinkOptions
from sumwire_lab.study.study import Context, Study
from sumwire_lab.study.workers import WorkerCall, answer_in, command_of, name_of, started
from sumwire_lab.system.leftovers import Ledger
from sumwire_lab.system.processes import cpu_clock, cpu_seconds, killed_after, wait_all

WORKERS: Final = 4
BATCH_SLOTS: Final = 32
TRAIN_PACKETS: Final = 64
"""Packets of a train, as far as 64 KB have room for them; then also the slots of a batch."""
SECONDS: Final = 4.0
REPEATS: Final = 3
TRAINS: Final = "native-trains"
CONTENDERS: Final[dict[str, tuple[str, str]]] = {
    "native": ("soft", "native"),
    TRAINS: ("soft", "native"),
    "python": ("soft", "python"),
    "bmv2": ("bmv2", "auto"),
}
"""Name -> kind of switch and engine."""
GENERATOR: Final = "generator"
GENERATOR_TRAINS: Final = "generator-trains"
_BY_TRAINS: Final = (TRAINS, GENERATOR_TRAINS)
_UDP_MOST_BYTES: Final = 65507
SUMMED: Final = ("first", "add", "last")
_DEADLINE_SECONDS: Final = 60.0


def present() -> list[str]:
    """Return the contenders that this machine has."""
    native = switches.choose_engine("auto") == "native"
    bmv2 = switches.choose("auto") == "bmv2"
    return [*(["native", TRAINS] if native else []), "python", *(["bmv2"] if bmv2 else [])]


def bench(options: SwitchBenchOptions) -> Bench:
    """Measure each op on each contender in turn, several times, after the generator alone. Raises OptionError for an
    unknown contender, MissingToolError for one that this machine lacks."""
    contenders = options.switches or tuple(present())
    for name in contenders:
        if name not in CONTENDERS:
            raise OptionError(f"switches={name}: known are {', '.join(CONTENDERS)}")
        kind, engine = CONTENDERS[name]
        if switches.choose(kind) == "soft":
            switches.choose_engine(engine)
    alone = [GENERATOR, *([GENERATOR_TRAINS] if TRAINS in contenders else [])]
    runs = [*((name, 0) for name in alone), *((name, k) for k in range(REPEATS) for name in contenders)]
    cases = [{"op": op, "contender": name, "repeat": k} for op in options.ops for name, k in runs]

    def record(rows: Rows) -> dict[str, Any]:
        of = {op: [row for row in rows if row["op"] == op] for op in options.ops}
        return {"workers": WORKERS, "ops": {op: entry_of(mine, contenders) for op, mine in of.items()}}

    study = Study("switch", "packets per second into each switch", cases, measure, stops=True)
    return Bench(study, record, lambda rows: text(record(rows)))


def measure(case: Row, context: Context) -> dict[str, Any]:
    """Run the generator once, against a contender or alone. Alone it has no results, and `packets_per_second` counts
    the packets that it sent. `cpu_us`: CPU microseconds of the switch per packet, including its time in the kernel."""
    contender, op = case["contender"], case["op"]
    if contender in (GENERATOR, GENERATOR_TRAINS):
        row = _generator_alone(contender, op, context.folder)
        context.say(f"{op}: {contender} alone {row['packets_per_second']:,.0f} packets/s")
    else:
        row = _measure(contender, op, context.folder)
        rate = f"{row['packets_per_second']:,.0f} packets/s in, {row['cpu_us']:.2f} us of CPU time each"
        context.say(f"{op}: {contender} {rate}")
    return row


def entry_of(rows: Rows, contenders: Sequence[str]) -> dict[str, Any]:
    """Return the entry of one op: medians by contender, the generator's rates, and the native engine's ratio to the
    others."""
    alone = {row["contender"]: row["packets_per_second"] for row in rows if row["contender"] not in CONTENDERS}
    runs = [row for row in rows if row["contender"] in CONTENDERS]
    of = {name: [row for row in runs if row["contender"] == name] for name in contenders}
    rates = {name: median(row["packets_per_second"] for row in mine) for name, mine in of.items()}
    return {
        "packets_per_second": rates,
        "cpu_us": {name: median(row["cpu_us"] for row in mine) for name, mine in of.items()},
        "ratios": ratios(rates),
        "generator_alone": alone[GENERATOR],
        "generator_alone_trains": alone.get(GENERATOR_TRAINS),
        "runs": runs,
    }


def text(record: Row) -> str:
    """Return a text of packets/s by op and contender (medians) with the ratios, and CPU time per packet."""
    lines = []
    for op, entry in record["ops"].items():
        rates = {**entry["packets_per_second"], "generator alone": entry["generator_alone"]}
        if entry["generator_alone_trains"] is not None:
            rates["generator alone, trains"] = entry["generator_alone_trains"]
        cells = [f"{name} {rate:,.0f}" for name, rate in rates.items()]
        cells += [f"{name} {ratio:.2f}" for name, ratio in entry["ratios"].items()]
        lines.append(f"{op}: packets/s {', '.join(cells)}")
        times = ", ".join(f"{name} {us:.2f}" for name, us in entry["cpu_us"].items())
        lines.append(f"{op}: CPU us a packet in the switch {times}")
    return "\n".join(lines)


def ratios(rates: Mapping[str, float]) -> dict[str, float]:
    """Return packets/s of the native engine without trains over those of the others, and with trains over without."""
    if "native" not in rates:
        return {}
    native = rates["native"]
    over = {f"native / {name}": native / rate for name, rate in rates.items() if name not in ("native", TRAINS)}
    return {**over, **({f"{TRAINS} / native": rates[TRAINS] / native} if TRAINS in rates else {})}


@contextmanager
def _pairs(ledger: Ledger, contender: str, op: str) -> Iterator[tuple[Fabric, list[str]]]:
    """Veth pairs without rate limits in this namespace. Yields the plan and the names of the far ends.

    The interfaces carry whole trains if the contender gets them, else single packets only.
    """
    link = LinkOptions(mtu=JUMBO_MTU) if op == JUMBO.name else LinkOptions()
    fabric = plan(WORKERS, link, ledger.token)
    for host in fabric.hosts:
        near, far = host.switch_interface, host.host_interface
        _command(["ip", "link", "add", near, "type", "veth", "peer", "name", far])
        for name in (near, far):
            _command(no_ipv6_command(name))
            _command(mtu_command(name, link))
            if contender not in _BY_TRAINS:
                _command(off_command(name))
            _command(["ip", "link", "set", name, "up"])
    yield fabric, [host.host_interface for host in fabric.hosts]


def _command(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")


def _measure(contender: str, op: str, folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True)
    kind, engine = CONTENDERS[contender]
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        fabric, ends = stack.enter_context(_pairs(ledger, contender, op))
        trains = contender in _BY_TRAINS
        switch = switches.P4Process(kind, folder / "switch.log", ledger, engine=engine, trains=trains)
        stack.callback(switch.stop)
        switch.start([(host.port, host.switch_interface) for host in fabric.hosts])
        control_plane.install(fabric, {fabric.switches[0].name: switch.grpc}, folder, jobs_for(contender, fabric))
        assert switch.process is not None
        clocks = [cpu_clock(switch.process.pid)]
        began = cpu_seconds(clocks)
        spec = _load_spec(contender, op, fabric, ends)
        count = _generate(spec, folder, ledger=ledger, serving={"switch": switch.process})
        cpu_s = cpu_seconds(clocks) - began
        verdicts = control_plane.counters(folder)["verdicts"]
    summed = sum(verdicts[name] for name in SUMMED)
    rates = {"packets_per_second": summed / count["seconds"], "cpu_us": cpu_s / summed * 1e6}
    return {**rates, "sent": count["sent"], "summed": summed, "results": count["results"], "resent": count["resent"]}


def _generator_alone(contender: str, op: str, folder: Path) -> dict[str, Any]:
    """Packets/s without a switch. What is measured later must stay clearly below, or the generator is the limit."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        fabric, ends = stack.enter_context(_pairs(ledger, contender, op))
        count = _generate(_load_spec(contender, op, fabric, ends), folder, ledger=ledger, serving={})
    rates = {"packets_per_second": count["sent"] / count["seconds"], "cpu_us": 0.0}
    return {**rates, "sent": count["sent"], "summed": 0, "results": 0, "resent": 0}


def jobs_for(contender: str, fabric: Fabric) -> list[dict[str, Any]]:
    """Return the one job of a contender, with as many slots as its kind of switch supports."""
    kind = CONTENDERS[contender][0] if contender in CONTENDERS else None
    return fitted(control_plane.training_job(fabric), kind)


def _load_spec(contender: str, op: str, fabric: Fabric, interfaces: list[str]) -> LoadSpec:
    switch = fabric.switches[0]
    code, words = PACKET_OPS[op]
    trains = contender in _BY_TRAINS
    slots = int(jobs_for(contender, fabric)[0]["slots"]["count"])
    room = _UDP_MOST_BYTES // (p4.SUMWIRE_BYTES + words * p4.WORD_BYTES)
    return LoadSpec(
        interfaces=interfaces,
        ends=[Endpoints(h.mac, switch.aggregator_mac, h.ip, switch.aggregator_ip) for h in fabric.hosts],
        op=code,
        words=words,
        slots=slots,
        # As many in flight as the host library has.
        window=slots // 2,
        batch=TRAIN_PACKETS if trains else BATCH_SLOTS,
        seconds=SECONDS,
        listen=contender in CONTENDERS,
        train=min(TRAIN_PACKETS, room) if trains else 1,
    )


def _generate(
    spec: LoadSpec, folder: Path, *, ledger: Ledger, serving: dict[str, subprocess.Popen[bytes]]
) -> dict[str, Any]:
    logs = {GENERATOR: folder / "generator.log", "switch": folder / "switch.log"}
    command = command_of(WorkerCall(name_of(generator.generate), spec, str(folder / GENERATOR)))
    with killed_after() as working:
        working[GENERATOR] = started(command, logs[GENERATOR])
        ledger.add_process(working[GENERATOR].pid)
        wait_all(working, serving, logs, _DEADLINE_SECONDS, lambda: None)
    count: dict[str, Any] = answer_in(folder / GENERATOR)
    return count
