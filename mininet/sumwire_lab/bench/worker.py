# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The worker process of the all-reduce benchmarks: sets up the process group, times exchanges, writes a record."""

from __future__ import annotations

import json
import os
import resource
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import sumwire
import torch
import torch.distributed as dist

from sumwire_lab.system import drop_counters
from sumwire_lab.system.processes import cpu_clock, cpu_seconds, end_with_parent, leave
from sumwire_lab.training.worker import GROUP_TIMEOUT, MASTER_PORT, settle

_REPEATS_MOST: Final = 60
_VALUES_MOST: Final = 1_000_000
# Seconds of repeats of a size that a budget allows.
_REPEAT_S: Final = 2.0


class Exchange(ABC):
    """What one worker does again and again: it exchanges a gradient of one size with the other workers."""

    warm_up: int = 1
    """First repeats of a size that are not timed."""

    def __init__(self, job: sumwire.Job | None) -> None:
        self.job = job

    @abstractmethod
    def begin(self, size: int) -> None:
        """Get ready for gradients of `size` values."""

    @abstractmethod
    def prepare(self) -> None:
        """What a repeat needs before its time starts."""

    @abstractmethod
    def exchange(self) -> None:
        """The part that is timed."""

    @abstractmethod
    def end(self) -> None:
        """Let go of what `begin` has made."""

    def stats(self) -> dict[str, Any]:
        """The job's statistics so far; empty without a job."""
        return {} if self.job is None else self.job.stats.as_dict()

    def close(self) -> None:
        """Leave the job."""
        if self.job is not None:
            self.job.close()


def timed(work: Exchange, size: int, repeats: int, switches: Sequence[int] = ()) -> dict[str, Any]:
    """Time `repeats` exchanges of `size` values, each after a barrier of all workers.

    Returns seconds, CPU seconds and page faults of each, and the CPU seconds of all together: this worker's, and those
    of the processes whose CPU clocks `switches` are.
    """
    seconds, own_s, switch_s, faults = [], [], [], []
    work.begin(size)
    for repeat in range(work.warm_up + repeats):
        work.prepare()
        dist.barrier()
        faults_before = page_faults()
        switch_began, own_began, began = cpu_seconds(switches), time.process_time(), time.perf_counter()
        work.exchange()
        if repeat >= work.warm_up:
            seconds.append(time.perf_counter() - began)
            own_s.append(time.process_time() - own_began)
            switch_s.append(cpu_seconds(switches) - switch_began)
            faults.append(page_faults() - faults_before)
    work.end()
    return {
        "seconds": seconds,
        "cpu_s": sum(own_s),
        "switch_cpu_s": sum(switch_s),
        "cpu_each_s": own_s,
        "switch_cpu_each_s": switch_s,
        "faults_each": faults,
    }


def page_faults() -> int:
    """Pages that this process had no memory for yet. Each costs it as much time as a thousand values."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _repeats(size: int, least: int) -> int:
    """More of small tensors, whose times scatter more and cost little."""
    return max(least, min(_REPEATS_MOST, _VALUES_MOST // size))


def timed_sizes(work: Exchange, spec: Mapping[str, Any], switches: Sequence[int]) -> list[dict[str, Any]]:
    """`timed` for every size of the spec, in its order.

    With a `budget_s` in the spec, sizes must grow. A size for which warm-up and repeats would take longer than the
    budget, by the time of the size before it, ends the list; cheap sizes get more repeats. All workers decide alike.
    """
    found: list[dict[str, Any]] = []
    expected_s = 0.0
    for number, size in enumerate(spec["sizes"]):
        repeats = _repeats(size, spec["repeats"])
        if "budget_s" in spec and number > 0:
            expected_s *= size / spec["sizes"][number - 1]
            if (work.warm_up + spec["repeats"]) * expected_s > spec["budget_s"]:
                break
            repeats = max(repeats, min(_REPEATS_MOST, int(_REPEAT_S / expected_s)))
        found.append(timed(work, size, repeats, switches))
        expected_s = _slowest(median(found[-1]["seconds"])) if "budget_s" in spec else 0.0
    return found


def _slowest(seconds: float) -> float:
    """The largest of the workers' times, equal on all."""
    largest = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return float(largest)


def run(arguments: list[str], make: Callable[[dict[str, Any], int], Exchange]) -> None:
    """The whole process. Arguments: SPEC.json (see `exchanges.run_workers`) and RANK. `make` gets both."""
    end_with_parent()
    spec, rank = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = spec["interfaces"][rank]
    world = len(spec["interfaces"])
    # Workers of one machine meet in a file: a port found free may be another program's when the group opens it.
    method = f"file://{spec['store']}" if "store" in spec else f"tcp://{spec['master']}:{MASTER_PORT}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)
    work = make(spec, rank)
    # Only the first worker reads the switches' CPU clocks, so that it costs the others nothing.
    switches = [cpu_clock(pid) for pid in spec["switches"]] if rank == 0 else []
    settle()
    lost = drop_counters.host_sockets()
    record = {
        "sizes": timed_sizes(work, spec, switches),
        "host_sockets": drop_counters.host_sockets() - lost,
        "stats": work.stats(),
    }
    Path(spec["results"][rank]).write_text(json.dumps(record))
    dist.barrier()
    work.close()
    dist.destroy_process_group()
    leave()
