# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker of a training run: a process in a host's namespace, writing one JSON line per step.

The time of a step covers the forward pass, the backward pass with its communication, and the optimizer. Computing the
test's score and the true mean for the NMSE, and writing the log, are not timed. All workers compute the score, so that
none gets ahead of the others meanwhile.
"""

from __future__ import annotations

import gc
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import torch
import torch.distributed as dist
from sumwire.trace import span
from torch.optim import Optimizer

from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import TASKS, parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.study.workers import Rank
from sumwire_lab.system import counters
from sumwire_lab.system.barrier import Participant
from sumwire_lab.system.counters import LinkBytes, link_bytes
from sumwire_lab.training import digits_data, workload
from sumwire_lab.training.timing import PacketBytes, aggregate_error, job_counts, on_wire
from sumwire_lab.training.trainer import Trainer, delivery, make_lanes_trainer, make_optimizer, make_trainer

# First steps that all workers make together even with a smaller quorum: DDP lays out its buckets in them.
TOGETHER: Final = 3
# Cost of forward and backward pass over that of the forward pass: the backward pass has twice the matrix products.
FORWARD_AND_BACKWARD: Final = 3


@dataclass(frozen=True)
class WorkerSpec:
    """The settings that a worker's process gets."""

    system: str
    train: TrainOptions
    barrier: str | None = None
    """Socket of the barrier at which workers wait for each other; None: the process group's barrier is used."""
    slowness: tuple[float, ...] = ()
    """Factor by which the computation of each rank is slowed down. Empty: 1 for all."""
    laned: LanedOptions | None = None
    """For a system with priority lanes, a quorum or a loss bound."""


def total_steps(options: TrainOptions, samples: int, workers: int) -> int:
    """Return the steps of a whole training, the same on every worker."""
    steps = options.epochs * digits_data.steps_per_epoch(samples, workers, options.batch)
    return steps if options.max_steps is None else min(steps, options.max_steps)


def sampled_steps(steps: int, samples: int) -> frozenset[int]:
    """Return the steps whose aggregate is compared with the true mean: evenly spread, without DDP's first two."""
    if steps <= 2 or samples < 1:
        return frozenset()
    return frozenset(2 + (steps - 2) * k // samples for k in range(samples))


class TrainingWorker:
    """The training of one worker."""

    def __init__(self, spec: WorkerSpec, rank: Rank, out: TextIO) -> None:
        self.spec = spec
        self.rank = rank
        self.options = spec.train
        self._out = out
        self._samples = workload.samples(spec.train)
        self._steps = total_steps(spec.train, len(self._samples.train_y), rank.ranks)
        self._barrier = None if spec.barrier is None else Participant(Path(spec.barrier))
        self._slowness = spec.slowness[rank.number] if spec.slowness else 1.0
        self._chosen = parse(spec.system)
        self._network = workload.network(spec.train)
        optimizer = make_optimizer(self._chosen, self._network, spec.train)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._factor)
        self._trainer = self._join(optimizer)
        # Unless the quorum is smaller, every step needs every worker, and all begin it together.
        self._reached = False
        self._lockstep = spec.laned is None or spec.laned.lockstep(rank.ranks)

    def _join(self, optimizer: Optimizer) -> Trainer:
        job_file, rank = self.rank.job_file, self.rank.number
        if self.spec.laned is not None and job_file is not None and self._chosen.recipe.laned:
            return make_lanes_trainer(
                self._network, optimizer, self.spec.laned, self.spec.train, job_file=job_file, rank=rank
            )
        return make_trainer(
            self._chosen,
            self._network,
            optimizer,
            self.spec.train,
            job_file=job_file,
            rank=rank,
            factor=self._factor,
            delivery=None if self.spec.laned is None else delivery(self.spec.laned),
        )

    def _factor(self, step: int) -> float:
        return workload.learning_rate_factor(step, self._steps)

    def write(self, kind: str, **fields: Any) -> None:
        self._out.write(json.dumps({"kind": kind, **fields}) + "\n")
        self._out.flush()

    def run(self) -> None:
        """Run the whole training. The last line that it writes has the fingerprint of the parameters."""
        parameters = sum(p.numel() for p in self._network.parameters())
        self.write("start", rank=self.rank.number, steps=self._steps, parameters=parameters)
        sampled = self._sampled()
        settle()
        clock, lost = 0.0, counters.host_sockets()
        for step in range(self._steps):
            if self._lockstep or step < TOGETHER:
                self._wait_for_all()
            elif self._trainer.behind():
                clock = self._followed(step, clock)
                continue
            clock = self._step(step, clock, step in sampled)
            # The replicas are equal, so all workers see it at the same step.
            if self._reached and self.options.until_target:
                break
        lost = counters.host_sockets() - lost
        self.write(
            "end", fingerprint=workload.fingerprint(self._network), stats=self._trainer.stats(), host_sockets=lost
        )
        self._wait_for_all()
        self._trainer.close()

    def _sampled(self) -> frozenset[int]:
        """Steps whose aggregate is compared with the true mean. Only if all workers make every step together."""
        compares = self._chosen.recipe.estimates_mean and self._lockstep
        return sampled_steps(self._steps, self.options.nmse_samples if compares else 0)

    def _wait_for_all(self) -> None:
        """Wait for all workers: at the barrier if there is one, else with the process group."""
        if self._barrier is None:
            dist.barrier()
        else:
            self._barrier.wait()

    def _compute_longer(self, forward_s: float) -> None:
        """Make a slow worker's computing take longer, given the seconds of its forward pass.

        It sleeps instead of computing, which would slow down the other workers on the same machine.
        """
        if self._slowness > 1:
            time.sleep((self._slowness - 1) * FORWARD_AND_BACKWARD * forward_s)

    def _step(self, step: int, clock: float, sample: bool) -> float:
        """One step; returns the training's clock after it."""
        samples, options = self._samples, self.options
        chosen = digits_data.batch_indices(
            len(samples.train_y),
            options.seed,
            step,
            rank=self.rank.number,
            workers=self.rank.ranks,
            batch=options.batch,
        )
        trainer = self._trainer
        trainer.begin_step(keep=sample)
        before, coded = self._used(), trainer.codec_seconds()
        began = time.perf_counter()
        with span("forward", step=step):
            trainer.optimizer.zero_grad()
            loss = workload.loss(trainer.model, samples.train_x[chosen], samples.train_y[chosen])
            self._compute_longer(time.perf_counter() - began)
        forward = time.perf_counter()
        with span("backward", step=step):
            loss.backward()  # type: ignore[no-untyped-call]
        backward = time.perf_counter()
        with span("apply", step=step):
            trainer.step()
            self._schedule.step()
        seconds = time.perf_counter() - began
        carried = self._carried_since(before)
        nmse = None
        if sample and trainer.hook is not None:
            nmse = aggregate_error(trainer.hook.gradients, trainer.hook.results, self.rank.ranks)
        codec_s = None if coded is None else (trainer.codec_seconds() or 0.0) - coded
        when = {"at_s": began, "forward_s": forward - began, "backward_s": backward - began, "codec_s": codec_s}
        self._write_step(step, float(loss.detach()), clock + seconds, seconds, carried, nmse=nmse, **when)
        return clock + seconds

    def _used(self) -> tuple[LinkBytes, dict[str, int]]:
        return link_bytes(self.rank.interface), job_counts(self._trainer.stats())

    def _carried_since(self, before: tuple[LinkBytes, dict[str, int]]) -> tuple[PacketBytes, PacketBytes]:
        link, counts = self._used()
        return on_wire(link - before[0], before[1], counts)

    def _followed(self, step: int, clock: float) -> float:
        """A step that the other workers have completed without this one; returns the training's clock after it."""
        trainer = self._trainer
        trainer.begin_step(keep=False)
        before = self._used()
        began = time.perf_counter()
        trainer.follow()
        trainer.step()
        self._schedule.step()
        seconds = time.perf_counter() - began
        carried = self._carried_since(before)
        self._write_step(step, None, clock + seconds, seconds, carried, followed=True)
        return clock + seconds

    def _write_step(
        self,
        step: int,
        loss: float | None,
        clock: float,
        seconds: float,
        carried: tuple[PacketBytes, PacketBytes],
        **more: Any,
    ) -> None:
        up, down = carried
        self.write(
            "step",
            step=step,
            loss=loss,
            clock_s=clock,
            step_s=seconds,
            comm_s=self._trainer.seconds(),
            tx_bytes=up.total,
            rx_bytes=down.total,
            tx_header_bytes=up.headers,
            rx_header_bytes=down.headers,
            tensors=self._trainer.tensors(),
            **more,
            **self._score(step),
        )

    def _score(self, step: int) -> dict[str, float | None]:
        """The test score, if the test is due after this step."""
        task = TASKS[self.options.task]
        if (step + 1) % task.evaluate_every and step + 1 < self._steps:
            return {"accuracy": None, "bits": None}
        score = workload.score(self._network, self._samples)
        self._reached = score.accuracy >= task.target
        return asdict(score)


def train(spec: WorkerSpec, rank: Rank) -> None:
    """Run the worker. Its JSON lines go to `workerRANK.jsonl`."""
    with rank.group(), (rank.folder / f"worker{rank.number}.jsonl").open("w") as out:
        TrainingWorker(spec, rank, out).run()


def settle() -> None:
    """Exclude all objects that exist now from garbage collection.

    Otherwise the collector goes through the libraries' several hundred thousand objects in the middle of some steps.
    That takes a tenth of a second or more, for which all other workers wait.
    """
    gc.collect()
    gc.freeze()
