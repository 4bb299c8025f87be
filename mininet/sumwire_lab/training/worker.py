# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker of a training run: a process in a host's namespace, writing one JSON line per step.

Run as `python -m sumwire_lab.training.worker SPEC.json RANK`; the spec is written by the run (`WorkerSpec`).

Clock: a step's seconds are forward, backward with its communication, and the optimiser. What only observes
(the test's score, the true mean for the NMSE, writing the log) is left out, for every system alike.
All workers compute the score, so that none gets ahead of the others while one is looking.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

import torch
import torch.distributed as dist
from torch.optim import Optimizer

from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.options.tasks import TASKS
from sumwire_lab.system import drop_counters
from sumwire_lab.system.barrier import WAIT_SECONDS, Participant
from sumwire_lab.system.processes import end_with_parent
from sumwire_lab.training import digits_data as data
from sumwire_lab.training import model
from sumwire_lab.training import workload as work
from sumwire_lab.training.comm_timing import LinkBytes, aggregate_error, link_bytes
from sumwire_lab.training.lanes_trainer import join_lanes
from sumwire_lab.training.trainer import Member, join, make_optimizer

MASTER_PORT: Final = 29500
# Longer than any step; a dead peer shows earlier, because the run then ends all workers.
GROUP_TIMEOUT: Final = timedelta(seconds=WAIT_SECONDS)
# Steps that all workers make together even where a quorum would do: DDP lays out its buckets by then.
TOGETHER: Final = 3
# A backward pass makes two products of matrices where the forward pass makes one.
FORWARD_AND_BACKWARD: Final = 3


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker must know. `job_file` is the controller's, for systems that use the switch."""

    system: str
    workers: int
    train: TrainOptions
    master: str
    interfaces: list[str]
    results: list[str]
    """Per rank: where the JSON lines go."""
    job_file: str | None = None
    barrier: str | None = None
    """Socket of the barrier at which workers wait for each other; None: the process group's barrier is used."""
    slowness: list[float] = field(default_factory=list)
    """Per rank: how many times as long its computing takes; empty: 1."""
    laned: LanedOptions | None = None
    """Of a laned system."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> WorkerSpec:
        raw = json.loads(path.read_text())
        raw["train"] = TrainOptions(**raw["train"])
        raw["laned"] = None if raw["laned"] is None else LanedOptions.from_dict(raw["laned"])
        return cls(**raw)


def total_steps(options: TrainOptions, samples: int, workers: int) -> int:
    """Steps of a whole training, the same on every worker."""
    steps = options.epochs * data.steps_per_epoch(samples, workers, options.batch)
    return steps if options.max_steps is None else min(steps, options.max_steps)


def sampled_steps(steps: int, samples: int) -> frozenset[int]:
    """Steps whose aggregate is compared with the true mean: spread evenly, the first two left to DDP's set-up."""
    if steps <= 2 or samples < 1:
        return frozenset()
    return frozenset(2 + (steps - 2) * k // samples for k in range(samples))


class Worker:
    """State of one worker's training."""

    def __init__(self, spec: WorkerSpec, rank: int, out: TextIO) -> None:
        self.spec = spec
        self.rank = rank
        self.options = spec.train
        self._out = out
        self._interface = spec.interfaces[rank]
        self._samples = work.samples(spec.train)
        self._steps = total_steps(spec.train, len(self._samples.train_y), spec.workers)
        self._barrier = None if spec.barrier is None else Participant(Path(spec.barrier), GROUP_TIMEOUT.total_seconds())
        self._slowness = spec.slowness[rank] if spec.slowness else 1.0
        self._chosen = parse(spec.system)
        self._network = work.network(spec.train)
        optimizer = make_optimizer(self._chosen, self._network, spec.train)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._factor)
        self._member = self._join(optimizer)
        # Without a quorum below all, every step needs every worker, and they begin it together.
        self._lockstep = spec.laned is None or spec.laned.lockstep(spec.workers)

    def _join(self, optimizer: Optimizer) -> Member:
        job_file = None if self.spec.job_file is None else Path(self.spec.job_file)
        if self.spec.laned is not None and job_file is not None:
            return join_lanes(self._network, optimizer, self.spec.laned, job_file=job_file, rank=self.rank)
        return join(
            self._chosen,
            self._network,
            optimizer,
            self.spec.train,
            job_file=job_file,
            rank=self.rank,
            factor=self._factor,
        )

    def _factor(self, step: int) -> float:
        return model.learning_rate_factor(step, self._steps)

    def write(self, kind: str, **fields: Any) -> None:
        self._out.write(json.dumps({"kind": kind, **fields}) + "\n")
        self._out.flush()

    def run(self) -> None:
        """The whole training; the last line tells the fingerprint of the parameters."""
        parameters = sum(p.numel() for p in self._network.parameters())
        self.write("start", rank=self.rank, steps=self._steps, parameters=parameters)
        sampled = self._sampled()
        settle()
        clock, lost = 0.0, drop_counters.host_sockets()
        for step in range(self._steps):
            if self._lockstep or step < TOGETHER:
                self._wait_for_all()
            elif self._member.behind():
                clock = self._followed(step, clock)
                continue
            clock = self._step(step, clock, step in sampled)
        lost = drop_counters.host_sockets() - lost
        self.write("end", fingerprint=model.fingerprint(self._network), stats=self._member.stats(), host_sockets=lost)
        self._wait_for_all()
        self._member.close()

    def _sampled(self) -> frozenset[int]:
        """Steps whose gradients all workers compare, which they can do only where they make them together."""
        compares = self._chosen.recipe.estimates_mean and self._lockstep
        return sampled_steps(self._steps, self.options.nmse_samples if compares else 0)

    def _wait_for_all(self) -> None:
        """Wait for all workers: at the barrier if there is one, else with the process group."""
        if self._barrier is None:
            dist.barrier()
        else:
            self._barrier.wait()

    def _compute_longer(self, forward_s: float) -> None:
        """What a slow worker needs beyond the others, out of the seconds of its forward pass. It waits, because work
        would slow the other workers on the same machine as well."""
        if self._slowness > 1:
            time.sleep((self._slowness - 1) * FORWARD_AND_BACKWARD * forward_s)

    def _step(self, step: int, clock: float, sample: bool) -> float:
        """One step; returns the training's clock after it."""
        samples, options = self._samples, self.options
        chosen = data.batch_indices(
            len(samples.train_y), options.seed, step, rank=self.rank, workers=self.spec.workers, batch=options.batch
        )
        member = self._member
        member.begin_step(keep=sample)
        before = link_bytes(self._interface)
        began = time.perf_counter()
        member.optimizer.zero_grad()
        loss = work.loss(member.model, samples.train_x[chosen], samples.train_y[chosen])
        self._compute_longer(time.perf_counter() - began)
        loss.backward()  # type: ignore[no-untyped-call]
        member.step()
        self._schedule.step()
        seconds = time.perf_counter() - began
        used = link_bytes(self._interface) - before
        nmse = None
        if sample and member.hook is not None:
            nmse = aggregate_error(member.hook.gradients, member.hook.results, self.spec.workers)
        self._write_step(step, float(loss.detach()), clock + seconds, seconds, used, nmse=nmse)
        return clock + seconds

    def _followed(self, step: int, clock: float) -> float:
        """The same for a step that the others have made without this worker."""
        member = self._member
        member.begin_step(keep=False)
        before = link_bytes(self._interface)
        began = time.perf_counter()
        member.follow()
        member.step()
        self._schedule.step()
        seconds = time.perf_counter() - began
        used = link_bytes(self._interface) - before
        self._write_step(step, None, clock + seconds, seconds, used, followed=True)
        return clock + seconds

    def _write_step(
        self, step: int, loss: float | None, clock: float, seconds: float, used: LinkBytes, **more: Any
    ) -> None:
        self.write(
            "step",
            step=step,
            loss=loss,
            clock_s=clock,
            step_s=seconds,
            comm_s=self._member.seconds(),
            tx_bytes=used.tx,
            rx_bytes=used.rx,
            tx_packets=used.tx_packets,
            rx_packets=used.rx_packets,
            tensors=self._member.tensors(),
            **more,
            **self._score(step),
        )

    def _score(self, step: int) -> dict[str, float | None]:
        """The test's, after every so many steps and after the last."""
        if (step + 1) % TASKS[self.options.task].evaluate_every and step + 1 < self._steps:
            return {"accuracy": None, "bits": None}
        return asdict(work.score(self._network, self._samples))


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, rank = WorkerSpec.load(Path(arguments[0])), int(arguments[1])
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = spec.interfaces[rank]
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{spec.master}:{MASTER_PORT}",
        rank=rank,
        world_size=spec.workers,
        timeout=GROUP_TIMEOUT,
    )
    with Path(spec.results[rank]).open("w") as out:
        Worker(spec, rank, out).run()
    dist.destroy_process_group()
    leave()


def settle() -> None:
    """Take what set-up has made out of the garbage collector's sight.

    It would go through all of it, some hundred thousand objects of the libraries, in the middle of a step every so
    often: measured, a tenth of a second and more, on which the other workers wait.
    """
    gc.collect()
    gc.freeze()


def leave() -> NoReturn:
    """End this process, whose work is done and written, without taking the interpreter down first.

    gloo's threads let go of the last collective's tensors after it has returned, and need the interpreter for that:
    one that is late while the interpreter ends aborts the process (seen once in some ten runs).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
