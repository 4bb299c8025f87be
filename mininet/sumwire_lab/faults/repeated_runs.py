# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Makes ten runs of one job file, one after the other, without a command between them.

The 3rd and the 6th are ended by kill -9 of all ranks in mid-step. During the 8th the frames of the 7th are replayed, on
every link and in both directions: late, in another order, and some of them several times.

The workers add known values, and compare every sum with the expected one. That is computed from the values of all
workers and from the job's table, without the library's codecs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import sumwire
import torch
from numpy.typing import NDArray
from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire_protocol.ops import THC
from torch import Tensor

from sumwire_lab.faults.cases import FaultCase
from sumwire_lab.faults.programs import HostProgram, wait_ended
from sumwire_lab.faults.testbed import FaultTestbed, open_testbed
from sumwire_lab.load import expected_words
from sumwire_lab.study.workers import Rank, answer_in

CHUNKS: Final = 24
"""Chunks of every THC operation; other operations have as many values as fill a few chunks."""
_VALUES: Final = 3000
_ELEMENT_MAX: Final = 1 << 24


@dataclass(frozen=True)
class SumsTask:
    """The worker's task. `rounds`: how often every operation is done; None: until the program is killed. `group`: it
    runs in a process group."""

    seed: int
    rounds: int | None
    group: bool = False


class RawThc(GradientCodec):
    """A codec that sends given words with the op THC, and keeps the resulting words."""

    info: ClassVar[CodecInfo] = CodecInfo.of("raw-thc", THC)

    def __init__(self, words: NDArray[np.uint8]) -> None:
        super().__init__()
        self.words = words
        self.sums = np.zeros((len(words), THC.down.words, words.shape[2]), np.uint8)
        self.counts = np.zeros(len(words), np.int64)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        return _RawRound(self, x, self.chunks(len(x)), 1)


class _RawRound(CodecRound):
    def __init__(self, codec: RawThc, x: Tensor, chunks: int, grain: int) -> None:
        super().__init__(codec, x, chunks, grain)
        self._raw = codec

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        out[:] = self._raw.words[first:last]

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        self._raw.sums[first:last], self._raw.counts[first:last] = words, counts
        target[:] = 0

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        return torch.zeros(self.length)


def elements(worker: int, number: int, seed: int) -> NDArray[np.int32]:
    """Return a worker's values in one round of operations."""
    return np.random.default_rng((seed, worker, number)).integers(-_ELEMENT_MAX, _ELEMENT_MAX, _VALUES, np.int32)


def wrong(job: sumwire.Job, worker: int, number: int, seed: int) -> list[str]:
    """Return the names of the operations of one round whose result differs from the expected one."""
    workers, config = range(job.workers), job.config
    words = [expected_words.contribution("thc", k, CHUNKS, seed + number) for k in workers]
    raw = RawThc(words[worker])
    job.reduce_with(raw, torch.zeros(CHUNKS * THC.values))
    values = np.stack([elements(k, number, seed) for k in workers])
    own = values[worker]
    assert config.thc is not None
    right = {
        "thc": bool((raw.sums == expected_words.expected("thc", words, config.thc.table)).all()),
        "thc counts": bool((raw.counts == job.workers).all()),
        "sum32": bool((job.sum32(own) == values.sum(axis=0)).all()),
        "max32": bool((job.max32(own.view(np.uint32)) == values.view(np.uint32).max(axis=0)).all()),
        "vote": bool(
            (job.vote(torch.from_numpy(own > 0)).numpy() == (2 * (values > 0).sum(axis=0) >= len(values))).all()
        ),
    }
    return [name for name, is_right in right.items() if not is_right]


def add(task: SumsTask, rank: Rank) -> dict[str, Any]:
    """Worker: do all rounds. Returns the wrong operations by round, and the job's counts."""
    found: dict[int, list[str]] = {}
    number = 0
    torch.set_num_threads(1)
    with (
        rank.group() if task.group else nullcontext(),
        rank.job(fallback="never") as job,
        (rank.folder / f"count{rank.number}").open("wb", buffering=0) as count,
    ):
        while task.rounds is None or number < task.rounds:
            if bad := wrong(job, rank.number, number, task.seed):
                found[number] = bad
            number += 1
            # One byte per round, so that the experiment can see how far this worker is.
            count.write(b".")
        return {"rounds": number, "wrong": found, "stats": job.stats.as_dict()}


RUNS_ROW: Final = "runs"
ALONE, GROUP = "alone", "group"
"""Variants: workers without a process group, and with one."""
_LIMIT_S: Final = 480.0
# bmv2 on a busy machine takes minutes for the disturbed run.
_RUN_S: Final = 240.0
_REPLAY: Final = "sumwire_lab.faults.frames"
_FRAMES_PER_SECOND: Final = 200.0
_LOOK_SECONDS: Final = 0.005
# Rounds before a run is killed.
_KILLED_AFTER: Final = 5


@dataclass(frozen=True)
class RunSeries:
    """The number of runs, and which of them are killed, recorded, and disturbed by the recorded frames."""

    count: int = 10
    killed: tuple[int, ...] = (3, 6)
    recorded: int = 7
    disturbed: int = 8
    rounds: int = 15
    disturbed_rounds: int = 150
    """Enough for all recorded frames to arrive a few times."""

    def rounds_of(self, number: int) -> int | None:
        """Return the number of rounds of a run; None: until the run is killed."""
        if number in self.killed:
            return None
        return self.disturbed_rounds if number == self.disturbed else self.rounds


RUNS: Final = RunSeries()


def repeated_cases(switch: str, seeds: int) -> list[FaultCase]:
    """Return one case of each variant; this row has no seeds."""
    return [FaultCase(RUNS_ROW, switch, 1, _LIMIT_S, variant) for variant in (ALONE, GROUP)]


def carry_out_repeated(case: FaultCase, folder: Path) -> dict[str, Any]:
    """Carry out a case as `repeat` describes."""
    with open_testbed(case, folder) as testbed:
        return repeat(testbed, RUNS)


def repeat(testbed: FaultTestbed, runs: RunSeries) -> dict[str, Any]:
    """Make the runs. Returns `runs`: by number, the workers' records of the runs that were not killed."""
    records: dict[str, list[dict[str, Any]]] = {}
    for number in range(1, runs.count + 1):
        task = SumsTask(number, runs.rounds_of(number), group=testbed.case.variant == GROUP)
        folder = testbed.folder / f"run{number}"
        with _frames(testbed, recorded=number == runs.recorded, disturbed=number == runs.disturbed):
            workers = testbed.call(folder.name, add, task)
            if number in runs.killed:
                _kill_in_mid_step(workers, folder / "count0", testbed.case.seed + number)
            else:
                wait_ended(workers, _RUN_S)
                records[str(number)] = [answer_in(folder, rank) for rank in range(testbed.workers)]
    return {"runs": records}


def _kill_in_mid_step(workers: list[HostProgram], first: Path, seed: int) -> None:
    """Kill all at once, at a random moment after the first rounds. `first`: how far the first one is."""
    end = time.monotonic() + _RUN_S
    while not (first.exists() and first.stat().st_size >= _KILLED_AFTER):
        ended = [worker for worker in workers if worker.exit_code is not None]
        if ended or time.monotonic() > end:
            wait_ended(ended or workers, 0.0)
        time.sleep(_LOOK_SECONDS)
    time.sleep(random.Random(seed).uniform(0, 0.05))
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()


@contextmanager
def _frames(testbed: FaultTestbed, *, recorded: bool, disturbed: bool) -> Iterator[None]:
    """Record the frames of the run in the block, or send recorded ones again meanwhile."""
    replays: list[HostProgram] = []
    if recorded:
        # A train would be recorded as one frame, without checksums.
        testbed.session.network.end_offloads()
    for rank, host in enumerate(testbed.session.fabric.hosts):
        up, down = (str(testbed.folder / f"{host.name}-{way}.frames") for way in ("up", "down"))
        pid = testbed.session.network.pid(host)
        if recorded:
            for way, file in (("SENT", up), ("RECEIVED", down)):
                arguments = ["record", host.host_interface, file, way]
                replays.append(testbed.programs.start(f"record-{host.name}-{way}", pid, _REPLAY, arguments))
        elif disturbed:
            rate, seed = str(_FRAMES_PER_SECOND), str(rank)
            replays.append(
                testbed.programs.start(f"up-{host.name}", pid, _REPLAY, ["send", host.host_interface, up, rate, seed])
            )
            replays.append(
                testbed.programs.start(
                    f"down-{host.name}", None, _REPLAY, ["send", host.switch_interface, down, rate, seed]
                )
            )
    yield
    for replay in replays:
        replay.kill()
        replay.join()
