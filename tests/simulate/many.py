# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Many schedules, in several processes."""

from __future__ import annotations

import faulthandler
import gc
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from typing import Final, NamedTuple

from simulate.flow import Tally, told_apart
from simulate.mutations import mutated
from simulate.play import play
from simulate.schedule import Variant

# Seeds that a process plays at a time.
_BATCH: Final = 20
_PLAIN: Final = Variant()


class ProcessDiedError(Exception):
    """A process ended in the middle of its schedules: by a fault in C, or because somebody or the kernel killed it."""


class Played(NamedTuple):
    """``failed``: seeds, and what is violated. ``tally``: of what switches saw, where that is asked."""

    schedules: int
    failed: list[tuple[int, str]]
    cpu_s: float
    tally: Tally


def play_seeds(seeds: Sequence[int], mutation: str | None = None, variant: Variant = _PLAIN) -> Played:
    """In this process."""
    began, failed, tally = time.process_time(), [], Tally()
    with mutated(mutation):
        for seed in seeds:
            if variant.flow:
                violations, seen = told_apart(variant.of(seed))
                tally += seen
            else:
                violations = play(variant.of(seed)).violations
            if violations:
                failed.append((seed, violations[0]))
    if not gc.isenabled():
        _collect()
    return Played(len(seeds), failed, time.process_time() - began, tally)


def play_all(
    seeds: Sequence[int], mutation: str | None, processes: int, variant: Variant = _PLAIN
) -> Generator[Played, None, None]:
    """Part after part. Closing the iterator ends the processes.

    Raises ProcessDiedError with the signal and the seeds under way if a process dies.
    """
    batches = iter([seeds[start : start + _BATCH] for start in range(0, len(seeds), _BATCH)])
    context = multiprocessing.get_context("spawn")
    # Where there is one for each core. Fewer go wherever the machine has time for them.
    cores = sorted(os.sched_getaffinity(0))
    taken = context.Value("i", 0) if processes >= len(cores) else None
    pool = ProcessPoolExecutor(processes, context, begin_process, (cores, taken))
    running: dict[Future[Played], Sequence[int]] = {}
    # A pool that is broken forgets them.
    members: dict[int, BaseProcess] = {}

    def submit(most: int) -> None:
        for batch in islice(batches, most):
            running[pool.submit(play_seeds, batch, mutation, variant)] = batch
            members.update(pool._processes or {})

    try:
        # No more at a time than needed: what is queued must not outlive an interrupt.
        submit(2 * processes)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    played = future.result()
                except BrokenProcessPool as error:
                    # Its thread is the one that learns how each process ended.
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise ProcessDiedError(_obituary(members.values(), running.values())) from error
                del running[future]
                yield played
                submit(1)
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _obituary(members: Iterable[BaseProcess], batches: Iterable[Sequence[int]]) -> str:
    """How processes ended, and what they had to play. The pool ends those that live by SIGTERM."""
    codes = {process.exitcode for process in members} - {0, None, -signal.SIGTERM}
    names = sorted(signal.Signals(-code).name if code < 0 else f"status {code}" for code in codes if code is not None)
    seeds = [f"{batch[0]} to {batch[-1]}" for batch in batches]
    how = ", ".join(names) or "SIGTERM"
    return f"a process ended by {how} in one of the seeds {', '.join(seeds)}; what a fault in C was doing is on stderr"


def begin_process(cores: list[int], taken: Synchronized[int] | None) -> None:
    """Ctrl-C is the first process's to handle, and nobody reads what the product logs. Garbage is collected after each
    batch only: what a schedule leaves in cycles is little.

    With ``taken``, how many have begun, it has a core of its own: one of its threads runs at a time and wakes the next
    one, which takes several times as long on another core.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    be_quiet()
    if taken is not None:
        with taken.get_lock():
            number, taken.value = taken.value, taken.value + 1
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    gc.disable()
    _collect()


def _collect() -> None:
    """What is left is modules and caches, which live as long as the process: the collector need not look at them again
    and again."""
    gc.collect()
    gc.freeze()


def be_quiet() -> None:
    for name in ("sumwire", "softswitch"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
