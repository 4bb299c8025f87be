# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker of a training run: a process in a host's namespace, writing one JSON line per step.

Run as `python -m sumwire_lab.train SPEC.json RANK`; the spec is written by the run (`WorkerSpec`).

Clock: a step's seconds are forward, backward with its communication, and the optimiser. What only observes
(test accuracy after every step, the true mean for the NMSE, writing the log) is left out, for every system alike.
All workers compute the accuracy, so that none gets ahead of the others while one is looking.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from sumwire_lab import data, model
from sumwire_lab.comm import HookTimer, LinkBytes, aggregate_error, link_bytes
from sumwire_lab.options import TrainOptions
from sumwire_lab.processes import end_with_parent

MASTER_PORT: Final = 29500
# Longer than any step; a dead peer shows earlier, because the run then ends all workers.
GROUP_TIMEOUT: Final = timedelta(seconds=120)


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

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> WorkerSpec:
        raw = json.loads(path.read_text())
        raw["train"] = TrainOptions(**raw["train"])
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
        self._digits = data.load()
        self._steps = total_steps(spec.train, len(self._digits.train_y), spec.workers)
        network = model.build(spec.train.hidden, spec.train.seed)
        self._ddp = DistributedDataParallel(network)
        self._timer, self._stats, self._close = make_hook(spec, rank)
        # A lambda, because DDP compares a hook's annotations and does not know those written as text.
        self._ddp.register_comm_hook(None, lambda state, bucket: self._timer.hand_over(bucket))
        self._optimizer = torch.optim.SGD(
            self._ddp.parameters(),
            lr=spec.train.learning_rate,
            momentum=model.MOMENTUM,
            nesterov=True,
            weight_decay=spec.train.weight_decay,
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, lambda step: model.learning_rate_factor(step, self._steps)
        )

    def write(self, kind: str, **fields: Any) -> None:
        self._out.write(json.dumps({"kind": kind, **fields}) + "\n")
        self._out.flush()

    def run(self) -> None:
        """The whole training; the last line tells the fingerprint of the parameters."""
        parameters = sum(p.numel() for p in self._ddp.parameters())
        self.write("start", rank=self.rank, steps=self._steps, parameters=parameters)
        sampled = sampled_steps(self._steps, self.options.nmse_samples) if self.spec.system != "gloo" else frozenset()
        clock = 0.0
        for step in range(self._steps):
            dist.barrier()
            clock = self._step(step, clock, step in sampled)
        self.write("end", fingerprint=model.fingerprint(self._ddp), stats=self._stats())
        dist.barrier()
        self._close()

    def _step(self, step: int, clock: float, sample: bool) -> float:
        digits, options = self._digits, self.options
        chosen = data.batch_indices(
            len(digits.train_y), options.seed, step, rank=self.rank, workers=self.spec.workers, batch=options.batch
        )
        self._timer.begin_step(keep=sample)
        before = link_bytes(self._interface)
        began = time.perf_counter()
        self._optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self._ddp(digits.train_x[chosen]), digits.train_y[chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._schedule.step()
        seconds = time.perf_counter() - began
        used: LinkBytes = link_bytes(self._interface) - before
        nmse = None
        if sample:
            nmse = aggregate_error(self._timer.gradients, self._timer.results, self.spec.workers)
        self.write(
            "step",
            step=step,
            loss=float(loss.detach()),
            clock_s=clock + seconds,
            step_s=seconds,
            comm_s=self._timer.seconds(),
            tx_bytes=used.tx,
            rx_bytes=used.rx,
            accuracy=model.accuracy(self._ddp.module, digits.test_x, digits.test_y),
            nmse=nmse,
        )
        return clock + seconds


def make_hook(spec: WorkerSpec, rank: int) -> tuple[HookTimer, Callable[[], dict[str, Any]], Callable[[], None]]:
    """(timed hook, its statistics, how to close it) for the spec's system."""
    if spec.system == "gloo":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        return HookTimer(allreduce_hook, None), dict, lambda: None
    from sumwire_lab.thc import open_hook

    if spec.job_file is None:
        raise ValueError(f"system {spec.system} needs a job file")
    return open_hook(Path(spec.job_file), rank)


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
