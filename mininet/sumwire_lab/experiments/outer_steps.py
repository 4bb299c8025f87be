# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the seconds of an outer step over links like those between data centres: gloo, a ring with one byte per
value, Sumwire with 4 bits.

All three go through the same soft switch, which delays and loses packets, in turn, by the same processes. TCP uses
first CUBIC, Linux's default, which treats each loss as congestion, and then BBR if the kernel has it, which tolerates
random loss best. With CUBIC a step takes so long that it has fewer values. The local steps take no time: a step is the
exchange of a whole pseudo-gradient, and the outer optimizer's step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import sumwire
import torch
import torch.distributed as dist
from sumwire.optim import Outer
from sumwire.training.reductions import through_group
from torch import Tensor, nn

from sumwire_lab.bench.benchmark import network_experiment, write_record
from sumwire_lab.bench.exchange_worker import TimedExchange, exchanges, measured
from sumwire_lab.errors import LabError
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank
from sumwire_lab.system import congestion_control

BLOCK: Final = 4096
_LARGEST: Final = 127.0
_SCALE_BYTES: Final = 4


def packed(x: Tensor) -> Tensor:
    """Encode float32 (blocks, BLOCK) as bytes: the scales, then a signed byte for each value."""
    scales = x.abs().amax(1, keepdim=True).clamp_(min=torch.finfo(torch.float32).tiny) / _LARGEST
    values = (x / scales).round_().to(torch.int8)
    return torch.cat([scales.reshape(-1).view(torch.uint8), values.reshape(-1).view(torch.uint8)])


def unpacked(content: Tensor) -> Tensor:
    """Return the rounded values that :func:`packed` encoded: float32 (blocks, BLOCK)."""
    blocks = len(content) // (BLOCK + _SCALE_BYTES)
    scales = content[: _SCALE_BYTES * blocks].view(torch.float32)
    return content[_SCALE_BYTES * blocks :].view(torch.int8).view(blocks, BLOCK).to(torch.float32) * scales[:, None]


def ring_mean(x: Tensor) -> Tensor:
    """Return the mean of all ranks' flat float32 tensors, with equal bits on all of them."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    blocks = -(-len(x) // (ranks * BLOCK))
    pieces = torch.zeros(ranks, blocks, BLOCK)
    pieces.view(-1)[: len(x)] = x
    for hop in range(ranks - 1):
        mine, theirs = (rank - hop) % ranks, (rank - hop - 1) % ranks
        pieces[theirs] += unpacked(_passed_on(packed(pieces[mine])))
    own = (rank + 1) % ranks
    content = packed(pieces[own] / ranks)
    pieces[own] = unpacked(content)
    for hop in range(ranks - 1):
        content = _passed_on(content)
        pieces[(rank - hop) % ranks] = unpacked(content)
    return pieces.view(-1)[: len(x)]


def _passed_on(content: Tensor) -> Tensor:
    """Send to the next rank, and return what the one before sends."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    received = torch.empty_like(content)
    sending = dist.isend(content, (rank + 1) % ranks)
    dist.recv(received, (rank - 1) % ranks)
    assert sending is not None
    sending.wait()
    return received


SYSTEMS: Final = ("gloo", "int8 ring", "4bit")


def _by_ring(x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
    return ring_mean(x), lambda: torch.zeros_like(x)


class OuterSteps(TimedExchange):
    """One outer step of each system, then the next one of each."""

    warm_up = len(SYSTEMS)

    def __init__(self, job: sumwire.Job, rank: int, controls: Sequence[str]) -> None:
        super().__init__(job)
        self._rank = rank
        self._controls = iter(controls)
        self._control = ""
        self._turn = 0
        self._outers: list[Outer] = []
        self._digests: list[str] = []

    def begin(self, size: int) -> None:
        """See TimedExchange."""
        self._control = next(self._controls)
        self._turn = 0
        self._outers.clear()
        draws = torch.Generator().manual_seed(self._rank)
        for system in SYSTEMS:
            weight = nn.Parameter(torch.zeros(size))
            # The local step: a move that differs from worker to worker.
            weight.grad = torch.randn(size, generator=draws)
            inner = torch.optim.SGD([weight], lr=0.01)
            if system == "4bit":
                self._outers.append(Outer(inner, self.job, every=1))
            else:
                reduce = through_group() if system == "gloo" else _by_ring
                self._outers.append(Outer(inner, None, every=1, reduce=reduce))

    def prepare(self) -> None:
        """Choose the congestion control before each step: a gloo group opens its connections late, with the machine's
        default."""
        congestion_control.choose(self._control)

    def exchange(self) -> None:
        """See TimedExchange."""
        self._outers[self._turn].step()
        self._turn = (self._turn + 1) % len(SYSTEMS)

    def end(self) -> None:
        """See TimedExchange."""
        self._digests += [hashlib.sha256(outer.shared.numpy().tobytes()).hexdigest() for outer in self._outers]

    def stats(self) -> dict[str, Any]:
        """See TimedExchange. `digests`: those of the shared parameters, by system."""
        return {**super().stats(), "digests": self._digests}


def time_outer_steps(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """Worker: run all three systems, over the job and the default process group."""
    with rank.group():
        return measured(OuterSteps(rank.job(), rank.number, spec["controls"]), spec, rank)


WORKERS: Final = 4
MBIT: Final = 20.0
LOSS: Final = 0.01
ROUND_TRIP_MS: Final = 50.0
CUBIC, BBR = "cubic", "bbr"
# Of a model, by congestion control, and in a quick try.
VALUES: Final = {CUBIC: 1_000_000, BBR: 4_000_000}
QUICK_VALUES: Final = {CUBIC: 250_000, BBR: 1_000_000}
REPEATS, QUICK_REPEATS = 3, 1
# Between two hosts a packet passes the switch there and back, and each time two ports.
_PASSAGES: Final = 4


def impairment() -> str:
    """Return the impairment of the soft switch's ports: loss in each direction of each link, and a quarter of the round
    trip as delay."""
    return f"drop={LOSS},delay={ROUND_TRIP_MS / _PASSAGES},seed=1"


def run_outer_steps(results: Path, say: Say, *, quick: bool = False) -> dict[str, Any]:
    """Return, by congestion control, `values` of the model, and `seconds` of an outer step by system: the slowest
    worker's, median of the repeats.

    Raises LabError, also if workers have different parameters.
    """
    sizes = QUICK_VALUES if quick else VALUES
    controls = congestion_control.available((CUBIC, BBR))
    values = {control: sizes[control] for control in controls}
    with network_experiment(results) as folder:
        workers = _measured(values, folder / "steps", QUICK_REPEATS if quick else REPEATS)
    record: dict[str, Any] = {
        control: {"values": values[control], "seconds": by_system(workers, number)}
        for number, control in enumerate(controls)
    }
    for control, found in record.items():
        times = ", ".join(f"{name} {one:.2f} s" for name, one in found["seconds"].items())
        say(f"tcp {control}, {found['values']} values: {times}")
    write_record(record, folder, "outer")
    return record


def _measured(values: Mapping[str, int], folder: Path, repeats: int) -> list[dict[str, Any]]:
    options = RunOptions(workers=WORKERS, link=LinkOptions(MBIT), impair=impairment())
    with open_session(options, "soft", folder) as session:
        told = {"repeats": len(SYSTEMS) * repeats, "controls": [*values], "sizes": [*values.values()]}
        workers = exchanges(session, told, time_outer_steps)
    if len({tuple(worker["stats"]["digests"]) for worker in workers}) != 1:
        raise LabError(f"workers have different parameters after outer steps; see {folder}")
    return workers


def by_system(workers: Sequence[Mapping[str, Any]], size: int) -> dict[str, float]:
    """Return the median of the slowest workers' seconds for one of the sizes. Repeats alternate between the systems."""
    slowest = [max(each) for each in zip(*(worker["sizes"][size]["seconds"] for worker in workers), strict=True)]
    return {name: median(slowest[number :: len(SYSTEMS)]) for number, name in enumerate(SYSTEMS)}
