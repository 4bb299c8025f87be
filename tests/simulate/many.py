# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Many schedules, in several processes."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import signal
import time
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import islice
from typing import Final, NamedTuple

from simulate.mutations import mutated
from simulate.play import play
from simulate.schedule import Schedule, drawn, with_key

# Seeds that a process plays at a time.
_BATCH: Final = 20


def schedule_of(seed: int, keys: bool) -> Schedule:
    """``keys``: the job has a key."""
    return with_key(drawn(seed)) if keys else drawn(seed)


class Played(NamedTuple):
    """``failed``: seeds, and what is violated."""

    schedules: int
    failed: list[tuple[int, str]]
    cpu_s: float


def play_seeds(seeds: Sequence[int], mutation: str | None = None, keys: bool = False) -> Played:
    """In this process."""
    began, failed = time.process_time(), []
    with mutated(mutation):
        for seed in seeds:
            outcome = play(schedule_of(seed, keys))
            if outcome.violations:
                failed.append((seed, outcome.violations[0]))
    return Played(len(seeds), failed, time.process_time() - began)


def play_all(
    seeds: Sequence[int], mutation: str | None, processes: int, keys: bool = False
) -> Generator[Played, None, None]:
    """Part after part. Closing the iterator ends the processes."""
    batches = iter([seeds[start : start + _BATCH] for start in range(0, len(seeds), _BATCH)])
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), begin_process)
    try:
        # No more at a time than needed: what is queued must not outlive an interrupt.
        running = {pool.submit(play_seeds, batch, mutation, keys) for batch in islice(batches, 2 * processes)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                running |= {pool.submit(play_seeds, batch, mutation, keys) for batch in [next(batches, None)] if batch}
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def begin_process() -> None:
    """Ctrl-C is the first process's to handle, and nobody reads what the product logs. All modules are loaded: the
    collector of garbage need not look at them again and again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    be_quiet()
    gc.collect()
    gc.freeze()


def be_quiet() -> None:
    for name in ("sumwire", "softswitch"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
