# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets per second into a switch over veth pairs: both engines of the soft switch and bmv2, one after the other.

Counted by the switch's own verdicts FIRST, ADD and LAST, over the time the generator ran.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.load.frames import Endpoints
from sumwire_lab.load.generator import BlastSpec
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric, plan
from sumwire_lab.network.topology import quiet_commands, require_tools
from sumwire_lab.options.recipes import SYSTEM_OPS
from sumwire_lab.options.run_options import LinkOptions
from sumwire_lab.run.experiment import Say, interruptible, new_folder
from sumwire_lab.system import leftovers
from sumwire_lab.system.leftovers import Ledger
from sumwire_lab.system.processes import cpu_clock, cpu_seconds, wait_all

WORKERS: Final = 4
WINDOW_SLOTS: Final = control_plane.SLOTS // 2
"""As many as the host library keeps under way."""
BATCH_SLOTS: Final = 32
SECONDS: Final = 4.0
REPEATS: Final = 3
OPS: Final = {op.name: (op.code, op.up.words) for op in SYSTEM_OPS}
"""Name -> op code and words of a contribution."""
CONTENDERS: Final[dict[str, tuple[str, str]]] = {
    "native": ("soft", "native"),
    "python": ("soft", "python"),
    "bmv2": ("bmv2", "auto"),
}
"""Name -> kind of switch and engine."""
SUMMED: Final = ("first", "add", "last")
_DEADLINE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Measurement:
    """One run of the generator against one switch."""

    contender: str
    op: str
    packets_per_second: float
    cpu_us: float
    """CPU time of the switch for each packet, the kernel's share on its behalf with it."""
    sent: int
    summed: int
    results: int
    resent: int


def present() -> list[str]:
    """The contenders that this machine has."""
    native = switches.choose_engine("auto") == "native"
    bmv2 = switches.choose("auto") == "bmv2"
    return [*(["native"] if native else []), "python", *(["bmv2"] if bmv2 else [])]


def parse_ops(text: str) -> tuple[str, ...]:
    """`thc,sign` or `all`. Raises OptionError."""
    names = tuple(OPS) if text == "all" else tuple(text.split(","))
    for name in names:
        if name not in OPS:
            raise OptionError(f"ops={name}: known are {', '.join(OPS)}, all")
    return names


def bench(contenders: Sequence[str], results: Path, say: Say, ops: Sequence[str] = ("thc",)) -> dict[str, Any]:
    """Measure each op on each contender in turn, several times. Writes switch.json. Raises LabError.

    Returns workers, and by op: packets_per_second of each contender and of the generator alone, and the ratios of the
    native engine over the others that are there.
    """
    require_tools()
    for name in contenders:
        if name not in CONTENDERS:
            raise OptionError(f"switches={name}: known are {', '.join(CONTENDERS)}")
        kind, engine = CONTENDERS[name]
        if switches.choose(kind) == "soft":
            switches.choose_engine(engine)
    folder = new_folder(results, latest=False)
    leftovers.clean()
    with interruptible():
        by_op = {op: _bench_op(contenders, op, folder / op, say) for op in ops}
    record: dict[str, Any] = {"workers": WORKERS, "ops": by_op}
    (folder / "switch.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def _bench_op(contenders: Sequence[str], op: str, folder: Path, say: Say) -> dict[str, Any]:
    alone = _generator_alone(op, folder / "generator")
    say(f"{op}: generator alone {alone:,.0f} packets/s")
    measured: list[Measurement] = []
    for repeat in range(REPEATS):
        for name in contenders:
            one = _measure(name, op, folder / f"{name}-{repeat}")
            measured.append(one)
            say(f"{op}: {name} {one.packets_per_second:,.0f} packets/s in, {one.cpu_us:.2f} us of CPU time each")
    rates = {name: median(m.packets_per_second for m in measured if m.contender == name) for name in contenders}
    return {
        "packets_per_second": rates,
        "cpu_us": {name: median(m.cpu_us for m in measured if m.contender == name) for name in contenders},
        "ratios": ratios(rates),
        "generator_alone": alone,
        "runs": [asdict(m) for m in measured],
    }


def ratios(rates: Mapping[str, float]) -> dict[str, float]:
    """How many times more the native engine takes than each other contender; nothing without it."""
    if "native" not in rates:
        return {}
    return {name: rates["native"] / rate for name, rate in rates.items() if name != "native"}


def table(record: Mapping[str, Any]) -> str:
    """Packets/s by op and contender (medians), the ratios behind them."""
    lines = []
    for op, entry in record["ops"].items():
        rates = {**entry["packets_per_second"], "generator alone": entry["generator_alone"]}
        cells = [f"{name} {rate:,.0f}" for name, rate in rates.items()]
        cells += [f"native / {name} {ratio:.2f}" for name, ratio in entry["ratios"].items()]
        lines.append(f"{op}: packets/s {', '.join(cells)}")
        times = ", ".join(f"{name} {us:.2f}" for name, us in entry["cpu_us"].items())
        lines.append(f"{op}: CPU us a packet in the switch {times}")
    return "\n".join(lines)


@contextmanager
def _pairs(ledger: Ledger) -> Iterator[tuple[Fabric, list[str]]]:
    """Unshaped veth pairs in this namespace. Gives the plan and the far ends' names."""
    fabric = plan(WORKERS, LinkOptions(), ledger.token)
    for host in fabric.hosts:
        near, far = host.switch_interface, host.host_interface
        _command(["ip", "link", "add", near, "type", "veth", "peer", "name", far])
        for name in (near, far):
            for command in quiet_commands(name):
                _command(command)
            _command(["ip", "link", "set", name, "up"])
    yield fabric, [host.host_interface for host in fabric.hosts]


def _command(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")


def _measure(contender: str, op: str, folder: Path) -> Measurement:
    folder.mkdir(parents=True)
    kind, engine = CONTENDERS[contender]
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        fabric, ends = stack.enter_context(_pairs(ledger))
        switch = switches.P4Process(kind, folder / "switch.log", ledger, engine=engine)
        stack.callback(switch.stop)
        switch.start([(host.port, host.switch_interface) for host in fabric.hosts])
        control_plane.install(
            fabric, {fabric.switches[0].name: switch.grpc}, folder, control_plane.training_job(fabric)
        )
        assert switch.process is not None
        clocks = [cpu_clock(switch.process.pid)]
        began = cpu_seconds(clocks)
        count = _blast(op, fabric, ends, folder, ledger=ledger, serving={"switch": switch.process})
        cpu_s = cpu_seconds(clocks) - began
        verdicts = control_plane.counters(folder)["verdicts"]
    summed = sum(verdicts[name] for name in SUMMED)
    rate = summed / count["seconds"]
    return Measurement(
        contender,
        op,
        rate,
        cpu_s / summed * 1e6,
        sent=count["sent"],
        summed=summed,
        results=count["results"],
        resent=count["resent"],
    )


def _generator_alone(op: str, folder: Path) -> float:
    """Packets/s with nobody at the other end: what is measured later must stay clearly below."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        fabric, ends = stack.enter_context(_pairs(ledger))
        count = _blast(op, fabric, ends, folder, ledger=ledger, serving={})
    return float(count["sent"] / count["seconds"])


def _blast(
    op: str,
    fabric: Fabric,
    interfaces: list[str],
    folder: Path,
    *,
    ledger: Ledger,
    serving: dict[str, subprocess.Popen[bytes]],
) -> dict[str, Any]:
    switch = fabric.switches[0]
    code, words = OPS[op]
    spec = BlastSpec(
        interfaces=interfaces,
        ends=[Endpoints(h.mac, switch.aggregator_mac, h.ip, switch.aggregator_ip) for h in fabric.hosts],
        op=code,
        words=words,
        slots=control_plane.SLOTS,
        window=WINDOW_SLOTS,
        batch=BATCH_SLOTS,
        seconds=SECONDS,
        listen=bool(serving),
        result=str(folder / "blast.json"),
    )
    path = folder / "blast.spec.json"
    spec.save(path)
    log = folder / "blast.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sumwire_lab.load.generator", str(path)], stdout=out, stderr=subprocess.STDOUT
        )
    ledger.add_process(process.pid)
    try:
        logs = {"generator": log, "switch": folder / "switch.log"}
        wait_all({"generator": process}, serving, logs, _DEADLINE_SECONDS, lambda: None)
    finally:
        process.kill()
        process.wait()
    count: dict[str, Any] = json.loads(Path(spec.result).read_text())
    return count
