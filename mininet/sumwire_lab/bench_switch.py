# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets of one op per second into a switch over veth pairs: the soft switch against bmv2, one after the other.

Counted by the switch's own verdicts FIRST, ADD and LAST, over the time the generator ran.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire import _p4 as p4

from sumwire_lab import control, leftovers, switches
from sumwire_lab.blast import BlastSpec
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.fabric import Fabric, plan
from sumwire_lab.frames import Endpoints
from sumwire_lab.leftovers import Ledger
from sumwire_lab.options import LinkOptions
from sumwire_lab.processes import wait_all
from sumwire_lab.run import new_folder
from sumwire_lab.session import Say, interruptible
from sumwire_lab.topology import quiet_commands, require_tools

WORKERS: Final = 4
WINDOW_SLOTS: Final = 32
SECONDS: Final = 4.0
REPEATS: Final = 3
OPS: Final[dict[str, tuple[int, int]]] = {
    "thc": (p4.OP_THC, p4.THC_WORDS_UP),
    "sum32": (p4.OP_SUM32, p4.SUM32_WORDS),
    "sign": (p4.OP_SIGN, p4.SIGN_WORDS),
    "vote": (p4.OP_VOTE, p4.VOTE_WORDS_UP),
}
"""Name -> op code and words of a contribution."""
SUMMED: Final = ("first", "add", "last")
_DEADLINE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Measurement:
    """One run of the generator against one switch."""

    switch: str
    packets_per_second: float
    sent: int
    summed: int
    results: int
    resent: int


def bench(kinds: Sequence[str], results: Path, say: Say, op: str = "thc") -> dict[str, Any]:
    """Measure each kind of switch in turn, several times. Writes switch.json. Raises LabError."""
    require_tools()
    if op not in OPS:
        raise OptionError(f"op={op}: known are {', '.join(OPS)}")
    for kind in kinds:
        if kind not in ("soft", "bmv2"):
            raise OptionError(f"switches={kind}: known are soft, bmv2")
        switches.choose(kind)
    folder = new_folder(results, latest=False)
    leftovers.clean()
    measured: list[Measurement] = []
    with interruptible():
        alone = _generator_alone(op, folder)
        say(f"generator alone: {alone:,.0f} packets/s")
        for repeat in range(REPEATS):
            for kind in kinds:
                one = _measure(kind, op, folder / f"{kind}-{repeat}")
                measured.append(one)
                say(f"{kind}: {one.packets_per_second:,.0f} {op} packets/s in")
    rates = {kind: median(m.packets_per_second for m in measured if m.switch == kind) for kind in kinds}
    record: dict[str, Any] = {
        "workers": WORKERS,
        "op": op,
        "packets_per_second": rates,
        "ratio": rates["soft"] / rates["bmv2"] if {"soft", "bmv2"} <= set(rates) else None,
        "generator_alone": alone,
        "runs": [asdict(m) for m in measured],
    }
    (folder / "switch.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


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


def _measure(kind: str, op: str, folder: Path) -> Measurement:
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        fabric, ends = stack.enter_context(_pairs(ledger))
        switch = switches.P4Process(kind, folder / "switch.log", ledger)
        stack.callback(switch.stop)
        switch.start([(host.port, host.switch_interface) for host in fabric.hosts])
        control.install(fabric, {fabric.switches[0].name: switch.grpc}, folder, control.training_job(fabric))
        assert switch.process is not None
        count = _blast(op, fabric, ends, folder, ledger=ledger, serving={"switch": switch.process})
        verdicts = control.counters(folder)["verdicts"]
    summed = sum(verdicts[name] for name in SUMMED)
    return Measurement(
        kind, summed / count["seconds"], count["sent"], summed, results=count["results"], resent=count["resent"]
    )


def _generator_alone(op: str, folder: Path) -> float:
    """Packets/s with nobody at the other end: what is measured later must stay clearly below."""
    where = folder / "generator"
    where.mkdir()
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        fabric, ends = stack.enter_context(_pairs(ledger))
        count = _blast(op, fabric, ends, where, ledger=ledger, serving={})
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
        slots=control.SLOTS,
        window=WINDOW_SLOTS,
        seconds=SECONDS,
        listen=bool(serving),
        result=str(folder / "blast.json"),
    )
    path = folder / "blast.spec.json"
    spec.save(path)
    log = folder / "blast.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sumwire_lab.blast", str(path)], stdout=out, stderr=subprocess.STDOUT
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
