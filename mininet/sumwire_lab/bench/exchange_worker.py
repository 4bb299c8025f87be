# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The worker process of the benchmarks that exchange gradients: sets up the process group, times exchanges, writes a
record.

The spec selects the exchange: plain all-reduces, optimizer steps with a system (a step begins with a gradient and ends
when the optimizer has applied the aggregate), or all-reduces by gloo and by Sumwire in turn, so that temporary load on
the machine slows down both.
"""

from __future__ import annotations

import os
import resource
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final, Literal

import sumwire
import torch
import torch.distributed as dist
from sumwire import systems

from sumwire_lab.bench.timing import sides
from sumwire_lab.options.recipes import DEFAULT_TASK, Chosen, parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.run.session import Session
from sumwire_lab.study.workers import Rank, Worker
from sumwire_lab.system import counters
from sumwire_lab.system.processes import cpu_clock, cpu_seconds, family
from sumwire_lab.training.trainer import system_options
from sumwire_lab.training.worker import settle

REPEATS: Final = 3
_DEADLINE_S: Final = 900.0
_REPEATS_MOST: Final = 60
_VALUES_MOST: Final = 1_000_000
# Seconds of repeats of a size that a budget allows.
_REPEAT_S: Final = 2.0


class TimedExchange(ABC):
    """The repeated work of one worker: it exchanges a gradient of one size with the other workers."""

    warm_up: int = 1
    """First repeats of a size that are not timed."""

    def __init__(self, job: sumwire.Job | None) -> None:
        self.job = job

    @abstractmethod
    def begin(self, size: int) -> None:
        """Get ready for gradients of `size` values."""

    @abstractmethod
    def prepare(self) -> None:
        """Do what a repeat needs before its time starts."""

    @abstractmethod
    def exchange(self) -> None:
        """Make the exchange, which is what the timer measures."""

    @abstractmethod
    def end(self) -> None:
        """Free what `begin` has made."""

    def stats(self) -> dict[str, Any]:
        """Return the job's statistics so far; empty without a job."""
        return {} if self.job is None else self.job.stats.as_dict()

    def close(self) -> None:
        """Leave the job."""
        if self.job is not None:
            self.job.close()


def timed(work: TimedExchange, size: int, repeats: int, switches: Sequence[int] = ()) -> dict[str, Any]:
    """Time `repeats` exchanges of `size` values, each after a barrier of all workers.

    Returns seconds, CPU seconds and page faults of each exchange, and the CPU seconds of all together, for this worker
    and for the processes with the CPU clocks `switches`.
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
    """Return the page faults of this process, for pages that had no memory yet. Each takes as long as a thousand
    values."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _repeats(size: int, least: int) -> int:
    """More of small tensors, whose times scatter more and cost little."""
    return max(least, min(_REPEATS_MOST, _VALUES_MOST // size))


def timed_sizes(work: TimedExchange, spec: Mapping[str, Any], switches: Sequence[int]) -> list[dict[str, Any]]:
    """`timed` for every size of the spec, in its order.

    With a `budget_s` in the spec, sizes must grow. A size whose warm-up and repeats would exceed the budget, estimated
    from the size before it, ends the list; cheap sizes get more repeats. All workers decide alike.
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


def exchanges(session: Session, told: Mapping[str, Any], worker: Worker | None = None) -> list[dict[str, Any]]:
    """Run the worker on all hosts, and return their measurements by rank. `told`: system, sizes and so on; see
    :func:`exchange`.

    `worker`: by default :func:`exchange`. Raises the errors of `Session.call`.
    """
    switches = [pid for process in session.serving().values() for pid in family(process.pid)]
    return session.call(worker or exchange, {"repeats": REPEATS, "switches": switches, **told}, _DEADLINE_S)


def measured(work: TimedExchange, spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """Time a worker's exchanges, and return its record."""
    # Only the first worker reads the switches' CPU clocks, so that it costs the others nothing.
    switches = [cpu_clock(pid) for pid in spec["switches"]] if rank.number == 0 else []
    settle()
    lost = counters.host_sockets()
    record = {
        "sizes": timed_sizes(work, spec, switches),
        "host_sockets": counters.host_sockets() - lost,
        "stats": work.stats(),
    }
    dist.barrier()
    work.close()
    return record


class PlainAllReduce(TimedExchange):
    """torch's all-reduce, or Sumwire's with a job. Every repeat gets the same tensor."""

    def __init__(self, reduce: Callable[[torch.Tensor], object], rank: int, job: sumwire.Job | None = None) -> None:
        super().__init__(job)
        self._reduce = reduce
        self._rank = rank
        self._tensor = self._work = torch.empty(0)

    def begin(self, size: int) -> None:
        """See TimedExchange."""
        self._tensor = torch.randn(size, generator=torch.Generator().manual_seed(self._rank))

    def prepare(self) -> None:
        """See TimedExchange."""
        self._work = self._tensor.clone()

    def exchange(self) -> None:
        """See TimedExchange."""
        self._reduce(self._work)

    def end(self) -> None:
        """See TimedExchange."""
        self._tensor = self._work = torch.empty(0)


def make_all_reduce(spec: Mapping[str, Any], rank: Rank) -> PlainAllReduce:
    """Return the all-reduce of the spec's system: gloo without a job, else THC, or that of the systems `sign` and
    `sum32`.

    `asking` is THC that asks for the norms of small tensors every time. `auto` measures both ways for the spec's sizes,
    and then uses the faster one; it computes sums, like gloo.
    """
    if rank.job_file is None:
        return PlainAllReduce(dist.all_reduce, rank.number)
    # Tuning tables of the lab are of no use outside it.
    os.environ["XDG_CACHE_HOME"] = str(rank.folder)
    job = rank.job(one_trip=spec["system"] != "asking")
    if spec["system"] == "auto":
        job.tune(sorted(spec["sizes"]))
    if spec["system"] == "sum32":
        return PlainAllReduce(lambda tensor: tensor.copy_(job.mean(tensor)), rank.number, job)
    ops: dict[str, Literal["mean", "sum", "sign"]] = {"auto": "sum", "sign": "sign"}
    op = ops.get(spec["system"], "mean")
    return PlainAllReduce(lambda tensor: sumwire.all_reduce(tensor, job, op=op), rank.number, job)


# Nothing is learned here; any rate will do.
_LEARNING_RATE: Final = 0.01


class OptimizerSteps(TimedExchange):
    """Steps with the same gradient each time: of one parameter matrix, nearly square, or of the tensors whose shapes
    the spec has for that size."""

    def __init__(self, chosen: Chosen, job: sumwire.Job | None, spec: Mapping[str, Any], rank: int) -> None:
        super().__init__(job)
        # Power-SGD sends its first gradients uncompressed.
        self.warm_up = chosen.recipe.warm_up_steps
        self._chosen = chosen
        self._rank = rank
        self._options = TrainOptions.of(DEFAULT_TASK, **spec["options"])
        tensors = spec.get("tensors") or [[sides(size)] for size in spec["sizes"]]
        self._tensors = dict(zip(spec["sizes"], tensors, strict=True))

    def begin(self, size: int) -> None:
        """See TimedExchange."""
        shapes = self._tensors[size]
        self._parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
        model = torch.nn.ParameterList(self._parameters)
        given = system_options(self._chosen, self._options, dist.get_world_size(), lambda step: 1.0)
        self._system = systems.make(self._chosen.recipe.system, self.job, transport=self._chosen.transport, **given)
        self._optimizer = self._system.attach(model, torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE))
        drawn = torch.Generator().manual_seed(self._rank)
        self._gradients = [torch.randn(shape, generator=drawn) for shape in shapes]

    def prepare(self) -> None:
        """See TimedExchange."""
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient.clone()

    def exchange(self) -> None:
        """See TimedExchange."""
        self._optimizer.step()

    def end(self) -> None:
        """See TimedExchange."""
        dist.barrier()
        self._system.close()


def make_steps(spec: Mapping[str, Any], rank: Rank) -> OptimizerSteps:
    """Return the steps of the spec's system, with a job if it needs one."""
    chosen = parse(spec["system"])
    return OptimizerSteps(chosen, rank.job() if chosen.switched else None, spec, rank.number)


class InTurn(TimedExchange):
    """Alternates gloo's exchange and the other system's, at each size."""

    warm_up = 2

    def __init__(self, gloo: PlainAllReduce, other: PlainAllReduce) -> None:
        super().__init__(other.job)
        self._both = (gloo, other)
        self._turn = self._others = self._group_before = 0
        self._by_group: list[float] = []

    def begin(self, size: int) -> None:
        """See TimedExchange."""
        for each in self._both:
            each.begin(size)
        self._turn = self._others = 0
        self._group_before = self._group_operations()

    def prepare(self) -> None:
        """See TimedExchange."""
        self._both[self._turn].prepare()

    def exchange(self) -> None:
        """See TimedExchange."""
        self._both[self._turn].exchange()
        self._others += self._turn
        self._turn = 1 - self._turn

    def end(self) -> None:
        """See TimedExchange."""
        for each in self._both:
            each.end()
        self._by_group.append((self._group_operations() - self._group_before) / self._others)

    def stats(self) -> dict[str, Any]:
        """See TimedExchange. `by_group`: for each size, the share of the other system's exchanges that it left to the
        group."""
        return {**super().stats(), "by_group": self._by_group}

    def _group_operations(self) -> int:
        return 0 if self.job is None else self.job.stats.group_operations


def make_in_turn(spec: Mapping[str, Any], rank: Rank) -> InTurn:
    """Return steps that take gloo and the spec's system in turn."""
    return InTurn(PlainAllReduce(dist.all_reduce, rank.number), make_all_reduce(spec, rank))


MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any], Rank], TimedExchange]]] = {
    "all-reduce": make_all_reduce,
    "steps": make_steps,
    "in-turn": make_in_turn,
}
"""By the spec's `exchange`."""


def exchange(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """The worker. The spec has `exchange`, `system`, `sizes` and `repeats`, and `switches`: PIDs of their processes."""
    with rank.group():
        return measured(MAKERS[spec["exchange"]](spec, rank), spec, rank)
