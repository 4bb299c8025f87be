# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the packet engine with ns-3, an independent simulator, where both have the same parts: TCP over a star."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from sumwire_lab.errors import LabError
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.native import NONE
from sumwire_lab.simulate.network import MESSAGE, PS, HostCosts, Network, Queues
from sumwire_lab.simulate.packets import NUMBERS
from sumwire_lab.system.environments import python_with

VERSION: Final = "3.44.post0"
PYTHON_VARIABLE: Final = "SUMWIRE_NS3_PYTHON"
"""An environment variable: the Python of an environment that has ns-3."""
_PLAYER: Final = Path(__file__).with_name("other_ns3.py")
_PLAY_S: Final = 1800.0
SEGMENT: Final = 1448
# Of a link without addresses, IP, TCP and its timestamps.
HEADER: Final = 2 + 20 + 20 + 12
WHOLE: Final = SEGMENT + HEADER
_LONGEST_S: Final = 1000.0
BEGIN_S: Final = 0.5
"""When messages begin: connections are open by then, and each has seen one round trip."""
_CONTROLS: Final = {"cubic": "TcpCubic", "dctcp": "TcpDctcp"}
KINDS: Final = ("nothing lost", "losses drawn", "queues overflow")
AS_OURS: Final = (
    ("ns3::TcpSocket::DelAckCount", "1"),
    ("ns3::TcpSocketBase::MinRto", "200ms"),
    ("ns3::TcpCubic::HyStartDetect", "DELAY"),
    ("ns3::TcpCubic::HyStartDelayMax", "16ms"),
)
"""What ns-3 does otherwise by default, and can do as the packet engine does."""


@dataclass(frozen=True)
class Cell:
    """Messages over a star. ``pairs``: sender and receiver of each; ``octets``: of each. With ``part``, each pair sends
    its next part when the pair before it has delivered one, as in a ring. ``seeds``: losses and begins of so many runs,
    of which the means are compared."""

    name: str
    fabric: Fabric
    pairs: tuple[tuple[int, int], ...]
    octets: int
    part: int = 0
    control: str = "cubic"
    mark_bytes: int = 0
    spread_s: float = 0.0
    seeds: int = 1
    kind: str = KINDS[0]
    others: tuple[tuple[str, str], ...] = AS_OURS

    def begins(self, seed: int) -> list[float]:
        """Return the seconds after BEGIN_S at which messages begin."""
        draw = random.Random(seed)
        return [draw.uniform(0, self.spread_s) for _ in self.pairs]


@dataclass(frozen=True)
class Compared:
    """Of both simulators: mean seconds until the last message has arrived, and the mean of Jain's index of rates."""

    cell: Cell
    seconds: tuple[float, float]
    fairness: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Ours / theirs, of the seconds."""
        return self.seconds[0] / self.seconds[1]


def jain(seconds: Sequence[float]) -> float:
    """Return Jain's index of the rates of equal messages: 1 if all took equally long."""
    rates = [1 / one for one in seconds]
    return sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates))


def ours(cell: Cell, seed: int) -> list[float]:
    """Return the seconds that each message took in the packet engine."""
    queues = Queues(mark_bytes=cell.mark_bytes or NONE)
    # Flows that share a full queue fall into step where nothing varies.
    vary_s = WHOLE * 8 / cell.fabric.rate_bit_s if cell.kind == KINDS[2] and len(cell.pairs) > 1 else 0.0
    with closing(Network(cell.fabric, Costs(), HostCosts(), queues, seed=seed, vary_s=vary_s)) as network:
        begins, tasks = cell.begins(seed), network.tasks
        flows = [network.flow(pair, NUMBERS[cell.control], SEGMENT, HEADER) for pair in cell.pairs]
        # A message without bytes stands for the handshake, of which the other one knows a round trip.
        for flow in flows:
            tasks.add(MESSAGE, flow, 0)
        ends = [tasks.work(BEGIN_S + begin) for begin in begins]
        part = cell.part or cell.octets
        for _ in range(cell.octets // part):
            made = [tasks.add(MESSAGE, flow, part, (ends[k],)) for k, flow in enumerate(flows)]
            ends = [made[k - 1] for k in range(len(made))] if cell.part else made
        if not network.run(_LONGEST_S):
            raise LabError(f"{cell.name}: no end within {_LONGEST_S:g} simulated seconds")
        times = network.task_times()
        return [float(times[end]["ended"]) / PS - BEGIN_S - begin for end, begin in zip(made, begins, strict=True)]


def given(cell: Cell, seed: int) -> dict[str, Any]:
    """Return a run as the other simulator's player reads it."""
    fabric = cell.fabric
    return {
        "control": _CONTROLS[cell.control], "hosts": fabric.workers, "segment": SEGMENT, "loss": fabric.loss,
        "delay_ns": round(fabric.delay_s * 1e9), "bit_s": round(fabric.rate_bit_s), "queue": fabric.queue_bytes,
        "mark": cell.mark_bytes, "seed": seed, "begin_s": BEGIN_S, "begins": cell.begins(seed),
        "stop_s": _LONGEST_S, "flows": [list(pair) for pair in cell.pairs], "total": cell.octets,
        "part": cell.part, "others": dict(cell.others),
    }  # fmt: skip


def compared(cells: Sequence[Cell], python: Path) -> list[Compared]:
    """Play the cells in both simulators. ``python``: of an environment with ns-3. Raises LabError."""
    runs = [(cell, seed) for cell in cells for seed in range(1, cell.seeds + 1)]
    theirs = iter(played([given(*run) for run in runs], python))
    found = []
    for cell in cells:
        seeds = range(1, cell.seeds + 1)
        both = [ours(cell, seed) for seed in seeds], [next(theirs) for _ in seeds]
        seconds, fairness = ([fmean(of(one) for one in side) for side in both] for of in (max, jain))
        found.append(Compared(cell, (seconds[0], seconds[1]), (fairness[0], fairness[1])))
    return found


def played(runs: Sequence[dict[str, Any]], python: Path) -> list[list[float]]:
    """Return the seconds that each message of each run took in ns-3, in a process of its own. Raises LabError."""
    try:
        done = subprocess.run(
            [str(python), "-P", str(_PLAYER)], input=json.dumps(runs), check=True, timeout=_PLAY_S,
            capture_output=True, text=True, env={},
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        raise LabError(f"ns-3 ended with status {error.returncode}: {error.stderr.strip()[-300:]}") from error
    found: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def environment() -> Path:
    """Return the Python of an environment with ns-3: that of the variable, or one in `.cache`, made the first time.

    Raises AbsentError.
    """
    if named := os.environ.get(PYTHON_VARIABLE):
        return Path(named)
    return python_with("ns3", VERSION)


def _star(hosts: int, rate: float, delay_s: float, segments: int = 1 << 14, loss: float = 0.0) -> Fabric:
    """``segments``: of a queue; ``loss``: of a way over two links."""
    return Fabric(workers=hosts, rate_bit_s=rate, delay_s=delay_s, queue_bytes=segments * WHOLE, loss=loss / 2)


def _into_first(senders: int) -> tuple[tuple[int, int], ...]:
    return tuple((host, 0) for host in range(1, senders + 1))


def cells() -> list[Cell]:
    """Return what is compared."""
    _, drawn, full = KINDS
    one, near, far, long = _into_first(1), 1e-5, 5e-3, 8000 * SEGMENT
    around = tuple((host, (host + 1) % 8) for host in range(8))
    made = [
        Cell(f"one flow of {size} segments, {rate:g} bit/s, {delay:g} s", _star(2, rate, delay), one, size * SEGMENT)
        for size, rate, delay in ((10, 1e9, near), (1000, 1e9, far), (10_000, 1e9, far), (10_000, 1e10, near))
    ]
    made += [
        Cell(f"ring of 8, 1 MB, {rate:g} bit/s", _star(8, rate, near), around, 14 * 125_000, 125_000)
        for rate in (1e8, 1e9, 1e10)
    ]
    for senders in (8, 32):
        name, pairs, size = f"incast of {senders}", _into_first(senders), 40 * SEGMENT
        made += [
            Cell(f"{name}, deep queue", _star(senders + 1, 1e9, near), pairs, size, spread_s=1e-4, seeds=3),
            Cell(f"{name}, queue of 100", _star(senders + 1, 1e9, near, 100), pairs, size, spread_s=1e-4, seeds=10,
                 kind=full),
        ]  # fmt: skip
    made.append(Cell("one flow, queue of 50", _star(2, 1e8, far, 50), one, 2 * long, kind=full))
    for flows in (2, 4, 8):
        name, star, pairs = f"{flows} flows, queue of 100", _star(flows + 1, 1e8, 2e-3, 100), _into_first(flows)
        made += [
            Cell(name, star, pairs, long, spread_s=0.1, seeds=3, kind=full),
            Cell(f"DCTCP, {name}, marks from 20", star, pairs, long, control="dctcp", mark_bytes=20 * WHOLE,
                 spread_s=0.1, seeds=3, kind=full),
        ]  # fmt: skip
    made += [
        Cell(f"losses of {loss:.1%}, {delay:g} s", _star(2, 1e8, delay, loss=loss), one, long, seeds=30, kind=drawn)
        for loss in (0.001, 0.01)
        for delay in (1e-3, far)
    ]
    return made
