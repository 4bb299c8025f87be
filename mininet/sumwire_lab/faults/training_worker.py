# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A small training of one rank. It writes one JSON line per step, from which an experiment judges it."""

from __future__ import annotations

import hashlib
import json
import os
import select
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TextIO

import sumwire
import torch
import torch.distributed as dist
from sumwire import systems
from sumwire.dlcp.lanes import Lanes
from torch.nn.parallel import DistributedDataParallel

from sumwire_lab.options.recipes import Chosen, parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.study.workers import Rank
from sumwire_lab.training import digits_data, workload
from sumwire_lab.training.trainer import make_optimizer, system_options

GROUP_TIMEOUT: Final = timedelta(seconds=300)
"""Longer than any disturbance of these experiments."""
FIRST_SCALE: Final = 2.0**16
# Parts of the model, so that DDP makes several buckets.
_BUCKETS: Final = 3
_MB: Final = 1 << 20


@dataclass(frozen=True)
class Overflow:
    """Forced overflow: gradients become infinite on these ranks, at these steps. The training then uses fp16 and
    GradScaler."""

    steps: list[int]
    ranks: list[int]


@dataclass(frozen=True)
class RankTrainingSpec:
    """What one training does. All ranks get the same spec."""

    system: str
    torchrun: bool = False
    """Whether torchrun tells the ranks where they meet."""
    steps: int = 100
    pace_s: float = 0.0
    """Least time of a step."""
    until: str | None = None
    """A file that, once it is there, says after how many steps the training ends."""
    train: TrainOptions = field(default_factory=lambda: TrainOptions(hidden=64, batch=32))
    overflow: Overflow | None = None
    save_after: int | None = None
    """Ends after so many steps, with a checkpoint."""
    checkpoint: str | None = None
    """Folder of the checkpoint; a training that finds one in it goes on from there."""
    save_every: int | None = None
    """Rank 0 writes model and optimizer after every so many steps, for a training that is restarted."""


class RankTraining:
    """One rank's training."""

    def __init__(self, spec: RankTrainingSpec, place: Rank, out: TextIO) -> None:
        self.spec = spec
        self.place, self.rank = place, place.number
        self._out = out
        self._samples = workload.samples(spec.train)
        self._network = workload.network(spec.train)
        self._chosen = parse(spec.system)
        inner = make_optimizer(self._chosen, self._network, spec.train)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(inner, self._factor)
        self._jobs: tuple[sumwire.Job, ...] = ()
        self._communication = self._join(self._chosen)
        self._inner = inner
        self._model, self._optimizer = self._attach()
        self._scaler = torch.amp.GradScaler("cpu", init_scale=FIRST_SCALE, enabled=spec.overflow is not None)
        self._first = self._resume()

    def _join(self, chosen: Chosen) -> systems.System:
        spec = self.spec
        given = system_options(chosen, spec.train, self.place.ranks, self._factor)
        if not chosen.switched:
            return systems.make(chosen.recipe.system, transport=chosen.transport, **given)
        config = self.place.config()
        if chosen.recipe.laned:
            lanes = Lanes(config)
            self._jobs = tuple(lanes.jobs)
            return systems.make(chosen.recipe.system, lanes)
        job = sumwire.Job(config)
        self._jobs = (job,)
        return systems.make(chosen.recipe.system, job, transport=chosen.transport, **given)

    def _attach(self) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        network = self._network
        if systems.TABLE[self._chosen.recipe.system].acts != "hook":
            return network, self._communication.attach(network, self._inner)
        size = sum(p.numel() * p.element_size() for p in network.parameters())
        ddp = DistributedDataParallel(network, bucket_cap_mb=size / _BUCKETS / _MB)
        return ddp, self._communication.attach(ddp, self._inner)

    def _factor(self, step: int) -> float:
        return workload.learning_rate_factor(min(step, self.spec.steps), self.spec.steps)

    def write(self, kind: str, **fields: Any) -> None:
        self._out.write(json.dumps({"kind": kind, **fields}) + "\n")
        self._out.flush()

    def run(self) -> None:
        """Run the whole training. The last line that it writes has accuracy and digest."""
        self.write("start", rank=self.rank, pid=os.getpid(), first=self._first, state=self._state_digest())
        step = self._first
        while step < self._last():
            began = time.monotonic()
            loss = self._step(step)
            step += 1
            self.write("step", step=step, at=time.time(), loss=loss, digest=self._digest(), **self._standing())
            self._keep(step)
            select.select([], [], [], max(0.0, self.spec.pace_s - (time.monotonic() - began)))
        accuracy = workload.score(self._network, self._samples).accuracy
        stats = [job.stats.as_dict() for job in self._jobs]
        self.write("end", accuracy=accuracy, digest=self._digest(), state=self._state_digest(), stats=stats)
        self.close()

    def close(self) -> None:
        self._communication.close()
        for job in self._jobs:
            job.close()

    def _last(self) -> int:
        """Steps after which the training ends, as far as is known by now."""
        spec = self.spec
        if spec.save_after is not None and self._first == 0:
            return spec.save_after
        if spec.until is not None and Path(spec.until).exists():
            return int(Path(spec.until).read_text())
        return spec.steps

    def _step(self, step: int) -> float:
        samples, options = self._samples, self.spec.train
        chosen = digits_data.batch_indices(
            len(samples.train_y), options.seed, step, rank=self.rank, workers=self.place.ranks, batch=options.batch
        )
        overflow = self.spec.overflow
        self._optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16, enabled=overflow is not None):
            loss = workload.loss(self._model, samples.train_x[chosen], samples.train_y[chosen])
        if overflow is not None and step in overflow.steps and self.rank in overflow.ranks:
            loss = loss * float("inf")
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._schedule.step()
        return float(loss.detach())

    def _standing(self) -> dict[str, Any]:
        """Where the operations of the jobs are carried out, and the scale of the gradients."""
        fallen = any(job.fallen_back for job in self._jobs)
        return {"fallen_back": fallen, "scale": self._scaler.get_scale()}

    def _digest(self) -> str:
        return workload.fingerprint(self._network)

    # -- checkpoints ---------------------------------------------------------------------------------------

    def _stateful(self) -> dict[str, Any]:
        """What a checkpoint keeps, by name. The optimizer's state is in that of the system."""
        return {"model": self._network, "schedule": self._schedule, "system": self._communication}

    def _state_digest(self) -> str | None:
        """Digest of the system's state; None if this training has no checkpoint."""
        if self.spec.checkpoint is None:
            return None
        digest = hashlib.sha256()
        for name, value in _leaves("", self._communication.state_dict()):
            content = value.contiguous().numpy().tobytes() if isinstance(value, torch.Tensor) else repr(value).encode()
            digest.update(name.encode() + content)
        return digest.hexdigest()

    def _keep(self, step: int) -> None:
        """Write the checkpoints that are due after a step."""
        spec = self.spec
        if spec.checkpoint is not None and step == spec.save_after:
            state = {name: one.state_dict() for name, one in self._stateful().items()}
            torch.save({**state, "step": step}, Path(spec.checkpoint) / f"rank{self.rank}.pt")
        if spec.save_every is not None and step % spec.save_every == 0 and self.rank == 0:
            kept = {"model": self._network.state_dict(), "optimizer": self._inner.state_dict()}
            path = self.place.folder / "last.pt"
            torch.save({**kept, "schedule": self._schedule.state_dict(), "step": step}, path.with_suffix(".partial"))
            path.with_suffix(".partial").replace(path)

    def _resume(self) -> int:
        """Take up a checkpoint if there is one. Returns the number of steps that it has behind it."""
        spec = self.spec
        if spec.checkpoint is not None and (path := Path(spec.checkpoint) / f"rank{self.rank}.pt").exists():
            state = torch.load(path, weights_only=True)
            for name, one in self._stateful().items():
                one.load_state_dict(state[name])
            return int(state["step"])
        # All ranks must have read the file before rank 0 may write the next one.
        found = self.place.folder / "last.pt"
        state = torch.load(found, weights_only=True) if spec.save_every is not None and found.exists() else None
        if spec.save_every is not None:
            dist.barrier()
        if state is None:
            return 0
        self._network.load_state_dict(state["model"])
        self._inner.load_state_dict(state["optimizer"])
        self._schedule.load_state_dict(state["schedule"])
        return int(state["step"])


def _leaves(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    """The values of nested dictionaries and sequences, by path."""
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from _leaves(f"{name}/{key}", value[key])
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from _leaves(f"{name}/{number}", one)
    else:
        yield name, value


def train(spec: RankTrainingSpec, rank: Rank) -> None:
    """Run the worker. Its lines go to `rankRANK.jsonl`."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    group = _below_torchrun(rank) if spec.torchrun else rank.group(GROUP_TIMEOUT)
    with group, (rank.folder / f"rank{rank.number}.jsonl").open("a") as out:
        RankTraining(spec, rank, out).run()


@contextmanager
def _below_torchrun(rank: Rank) -> Iterator[None]:
    os.environ["GLOO_SOCKET_IFNAME"] = rank.interface
    dist.init_process_group("gloo", timeout=GROUP_TIMEOUT)
    yield
    dist.destroy_process_group()
