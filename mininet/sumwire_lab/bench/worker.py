# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The worker process of the all-reduce benchmarks: sets up the process group, times exchanges, writes a record."""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import sumwire
import torch
import torch.distributed as dist

from sumwire_lab.system import drop_counters
from sumwire_lab.system.processes import cpu_clock, cpu_seconds, end_with_parent
from sumwire_lab.training.worker import GROUP_TIMEOUT, MASTER_PORT, leave, settle

_REPEATS_MOST: Final = 30
_VALUES_MOST: Final = 1_000_000


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

    Returns seconds of each, and the CPU seconds of all together: this worker's, and those of the processes whose CPU
    clocks `switches` are.
    """
    seconds, own_s, switch_s = [], 0.0, 0.0
    work.begin(size)
    for repeat in range(work.warm_up + repeats):
        work.prepare()
        dist.barrier()
        switch_began, own_began, began = cpu_seconds(switches), time.process_time(), time.perf_counter()
        work.exchange()
        if repeat >= work.warm_up:
            seconds.append(time.perf_counter() - began)
            own_s += time.process_time() - own_began
            switch_s += cpu_seconds(switches) - switch_began
    work.end()
    return {"seconds": seconds, "cpu_s": own_s, "switch_cpu_s": switch_s}


def _repeats(size: int, least: int) -> int:
    """More of small tensors, whose times scatter more and cost little."""
    return max(least, min(_REPEATS_MOST, _VALUES_MOST // size))


def run(arguments: list[str], make: Callable[[dict[str, Any], int], Exchange]) -> None:
    """The whole process. Arguments: SPEC.json (see `exchanges.run_workers`) and RANK. `make` gets both."""
    end_with_parent()
    spec, rank = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = spec["interfaces"][rank]
    world = len(spec["interfaces"])
    method = f"tcp://{spec['master']}:{spec.get('master_port', MASTER_PORT)}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)
    work = make(spec, rank)
    # Only the first worker reads the switches' CPU clocks, so that it costs the others nothing.
    switches = [cpu_clock(pid) for pid in spec["switches"]] if rank == 0 else []
    settle()
    lost = drop_counters.host_sockets()
    sizes = [timed(work, size, _repeats(size, spec["repeats"]), switches) for size in spec["sizes"]]
    record = {"sizes": sizes, "host_sockets": drop_counters.host_sockets() - lost, "stats": work.stats()}
    Path(spec["results"][rank]).write_text(json.dumps(record))
    dist.barrier()
    work.close()
    dist.destroy_process_group()
    leave()
