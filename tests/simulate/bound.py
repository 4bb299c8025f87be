# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a loss bound brings: `python -m simulate.bound` times steps of whole jobs with p = 0 and with p = 5 %.

Four workers at one switch begin each step together, in virtual time, so only round trips count: neither bandwidth nor
processors. Both jobs lose the same packets: whether the k-th copy of a packet crosses a link follows from seed, step,
link and chunk alone. So few steps tell much.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from sumwire.delivery import Delivery
from sumwire.job.job import Job
from sumwire.transport.stats import JobStats
from sumwire_protocol import constants as p4

from simulate.doubles import instead_of_the_system
from simulate.machine import Machine
from simulate.many import be_quiet
from simulate.network import Network, Place, Terms, Weather, job_of
from simulate.world import Process, World

WORKERS: Final = 4
SLOTS: Final = 256
BOUND: Final = 0.05
ROUND_TRIPS_S: Final = (0.001, 0.01, 0.04)
LOSSES: Final = (0.001, 0.01, 0.03)
CHUNKS: Final = (5, 20, 100, 500)
_CHUNK_VALUES: Final = 1024
# Between the beginnings of two steps, in seconds: no step takes as long.
_STEP_S: Final = 20.0
# The first steps agree on scales, and find out the round trip.
FIRST_STEPS: Final = 3
# Of a link of 1 Gbit/s.
_BYTE_S: Final = 8e-9
# Where a frame has the datagram, its op, and its bucket's chunk.
_DATAGRAM_AT: Final = 42
_OP_AT: Final = _DATAGRAM_AT + 1
_CHUNK_AT: Final = _DATAGRAM_AT + 20


@dataclass(frozen=True)
class Cell:
    """One place of the grid: round trip in seconds, share of frames lost on each link in each direction, chunks."""

    round_trip_s: float
    loss: float
    chunks: int


class LossyNetwork(Network):
    """Links of 1 Gbit/s, which lose a frame by what it is. ``step``: which step is under way."""

    def __init__(self, world: World, cell: Cell, seed: int) -> None:
        super().__init__(world, Terms("star4", SLOTS, WORKERS), Weather())
        self.step = 0
        self._cell = cell
        self._seed = seed
        self._copies = Counter[tuple[object, ...]]()
        # When a link has sent all that it was given, by link and direction.
        self._free_at: dict[tuple[Place, bool], float] = {}

    def _carry(self, link: Place, frame: bytes, arrive: Callable[[bytes], None]) -> list[float]:
        up = frame[_DATAGRAM_AT] & 0xF in (p4.KIND_CONTRIBUTE, p4.KIND_PROBE)
        now = self.world.now
        sent_at = max(now, self._free_at.get((link, up), 0.0)) + len(frame) * _BYTE_S
        self._free_at[link, up] = sent_at
        if self._loses(link, up, frame):
            return []
        seconds = sent_at - now + self._cell.round_trip_s / 2
        self.world.after(seconds, partial(arrive, frame))
        return [seconds]

    def _loses(self, link: Place, up: bool, frame: bytes) -> bool:
        """The first steps lose nothing. A question is a copy of the contribution in whose place it is."""
        if self.step < FIRST_STEPS:
            return False
        key = self._seed, self.step, link, up, frame[_OP_AT], frame[_CHUNK_AT : _CHUNK_AT + 4]
        self._copies[key] += 1
        drawn = hashlib.blake2b(repr((*key, self._copies[key])).encode(), digest_size=8).digest()
        return int.from_bytes(drawn) < self._cell.loss * 2**64


class Steps:
    """A job of four workers. ``seconds``: of each step, until the last worker has its result."""

    def __init__(self, cell: Cell, bound: float, steps: int, seed: int) -> None:
        self.seconds = [0.0] * steps
        self.stats: list[JobStats] = []
        self._cell, self._bound = cell, bound
        self._world = world = World(seed)
        self._network = LossyNetwork(world, cell, seed)
        self._machine = self._network.machine = Machine(world, self._network)
        with instead_of_the_system(self._machine, None):
            for worker in range(WORKERS):
                Process(world, f"worker {worker}").start("main", partial(self._work, worker))
            try:
                world.run(_STEP_S * (steps + 2), lambda: len(self.stats) == WORKERS)
            finally:
                world.end()
        if world.violations:
            raise AssertionError(world.violations[0])

    def _work(self, worker: int) -> None:
        world = self._world
        x = torch.linspace(-1, 1, self._cell.chunks * _CHUNK_VALUES)
        delivery = Delivery(loss_bound=self._bound)
        config = job_of(self._network.terms, worker)
        with Job(config, delivery=delivery, block=_CHUNK_VALUES, join_s=_STEP_S / 2) as job:
            for step in range(len(self.seconds)):
                self._until((step + 1) * _STEP_S)
                self._network.step = step
                job.reduce(x, 0)
                self.seconds[step] = max(self.seconds[step], world.now - (step + 1) * _STEP_S)
            self._until((len(self.seconds) + 1) * _STEP_S)
        self.stats.append(job.stats)

    def _until(self, time: float) -> None:
        while self._world.now < time:
            self._world.sleep(time)


def measured(cell: Cell, steps: int, seeds: int) -> dict[str, Any]:
    """So many steps in which packets are lost, with each seed. Numbers are of p = 0 and of p = 5 %, in this order;
    seconds are those of a step."""
    gc.disable()
    torch.set_num_threads(1)
    sides: list[tuple[list[float], list[JobStats]]] = []
    for bound in (0.0, BOUND):
        sides.append(([], []))
        for seed in range(1, seeds + 1):
            played = Steps(cell, bound, FIRST_STEPS + steps, seed)
            sides[-1][0].extend(played.seconds[FIRST_STEPS:])
            sides[-1][1].extend(played.stats)
            gc.collect()
    seconds = [np.array(one) for one, _ in sides]
    stats = [one for _, one in sides]
    return {
        **asdict(cell),
        "mean_s": [float(one.mean()) for one in seconds],
        "p99_s": [float(np.quantile(one, 0.99)) for one in seconds],
        "sent_again": [sum(one.retransmissions for one in side) for side in stats],
        "missing": [sum(one.missing for one in side) // WORKERS for side in stats],
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m simulate.bound", description=__doc__)
    parser.add_argument("--steps", type=int, default=40, help="of each seed, in which packets are lost")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--chunks", type=int, nargs="*", default=CHUNKS, help="of a tensor")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    asked = parser.parse_args(arguments)
    cells = [Cell(*place) for place in product(ROUND_TRIPS_S, LOSSES, asked.chunks)]
    play = partial(measured, steps=asked.steps, seeds=asked.seeds)
    found = []
    with ExitStack() as stack:
        several: Callable[..., Iterable[dict[str, Any]]] = map
        if asked.jobs > 1:
            context = multiprocessing.get_context("spawn")
            several = stack.enter_context(context.Pool(asked.jobs, be_quiet, maxtasksperchild=1)).imap
        for one in several(play, cells):
            found.append(one)
            sys.stdout.write(f"{_line(one)}\n")
            sys.stdout.flush()
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _line(one: dict[str, Any]) -> str:
    round_trip_s, (without_s, with_s), tail = one["round_trip_s"], one["mean_s"], one["p99_s"]
    return (
        f"{1000 * round_trip_s:3.0f} ms, {one['loss']:.1%} lost, {one['chunks']:3} chunks: "
        f"{without_s / round_trip_s:6.3f} round trips with p = 0, {with_s / round_trip_s:6.3f} with p = {BOUND:.0%}; "
        f"mean {without_s / with_s:.3f}, "
        f"p99 {tail[0] / tail[1]:.3f}"
    )


if __name__ == "__main__":
    be_quiet()
    sys.exit(main(sys.argv[1:]))
