# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training loops of many kinds, as people write them, by gloo and by Sumwire: does each end with gloo's loss?

`measured` starts the ranks of one way by torchrun, on loopback, and they play one scenario after the other. A scenario
is a function of a `Run`, which wraps its models as the way needs. It returns the model whose loss is taken, on images
that no rank trains on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sumwire
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sumwire_lab.experiments.added_lines import by_torchrun
from sumwire_lab.experiments.scenario_networks import (
    HIDDEN,
    Branches,
    Cast,
    Checkpointed,
    Encoder,
    Odd,
    Recurrent,
    Tied,
    Tokens,
    cnn,
    mlp,
)  # fmt: skip
from sumwire_lab.training.digits_data import CLASSES, Samples, batch_indices, load

GLOO: Final = "gloo"
HOOK: Final = "hook"
BACKEND: Final = "backend"
SHARDED_GLOO: Final = "sharded, gloo"
SHARDED: Final = "sharded"
# Two levels a value, without error feedback, which the backend has not: it must not end with gloo's loss.
ONE_BIT: Final = "backend, 1 bit"
# The way that each is compared with.
BASELINES: Final[Mapping[str, str]] = {HOOK: GLOO, BACKEND: GLOO, ONE_BIT: GLOO, SHARDED: SHARDED_GLOO}
STEPS: Final = 40
BATCH: Final = 16
RATE: Final = 0.05
# Of one scenario; and of all of a way's, which a hang ends earlier.
_SECONDS: Final = 60.0
_ALL_SECONDS: Final = 1800.0


@dataclass
class Run:
    """One scenario on one rank. ``job``: None by gloo."""

    way: str
    data: Samples
    job: Any = None
    state: Any = None

    def wrap(self, model: nn.Module, *, state: Any = None, **options: Any) -> nn.Module:
        """Make replicas of a model, or shards, as the way does. The hook has a state of its own unless one is given."""
        if self.way in {SHARDED, SHARDED_GLOO}:
            return self._shard(model)
        wrapped = DistributedDataParallel(model, **options)
        if self.way == HOOK:
            self.state = state or sumwire.DdpState(self.job, model=wrapped)
            wrapped.register_comm_hook(self.state, sumwire.ddp_hook)
        return wrapped

    def _shard(self, model: nn.Module) -> nn.Module:
        from torch.distributed.fsdp import fully_shard

        whole: nn.Module = fully_shard(model)  # type: ignore[assignment]
        if self.way == SHARDED:
            self.state = sumwire.sharded.attach(whole, self.job)
        return whole

    def loss(self, model: nn.Module, step: int) -> Tensor:
        """Return the loss on this rank's images of a step."""
        chosen = batch_indices(
            len(self.data.train_x), 1, step, rank=dist.get_rank(), workers=dist.get_world_size(), batch=BATCH
        )
        return nn.functional.cross_entropy(model(self.data.train_x[chosen]), self.data.train_y[chosen])

    def train(
        self,
        model: nn.Module,
        optimizer: Any,
        steps: range = range(STEPS),
        *,
        to_none: bool = True,
        clip: float | None = None,
        schedule: LRScheduler | None = None,
    ) -> nn.Module:
        """Take plain steps. ``to_none``: how gradients are cleared; ``clip``: the most that the gradient's norm may
        be."""
        for step in steps:
            optimizer.zero_grad(set_to_none=to_none)
            self.loss(model, step).backward()  # type: ignore[no-untyped-call]
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            if schedule is not None:
                schedule.step()
        return model


Outcome = dict[str, Any]
"""A scenario's name, and what `play` says of it."""
Scenario = Callable[[Run], nn.Module]
"""Trains, and returns the model whose loss is taken."""


def sgd(model: nn.Module, rate: float = RATE, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, **options)


def adam(model: nn.Module, rate: float = 3e-3, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate, **options)


def plainly(
    make: Callable[[], nn.Module],
    by: Callable[[nn.Module], torch.optim.Optimizer] = sgd,
    loop: Mapping[str, Any] | None = None,
    **options: Any,
) -> Scenario:
    """A plain loop. ``options``: DDP's; ``loop``: those of `Run.train`."""

    def played(run: Run) -> nn.Module:
        model = run.wrap(make(), **options)
        return run.train(model, by(model), **(loop or {}))

    return played


def _one_cycle(run: Run) -> nn.Module:
    model = run.wrap(mlp())
    optimizer = adam(model, 1e-2, fused=True)
    return run.train(model, optimizer, schedule=OneCycleLR(optimizer, 1e-2, total_steps=STEPS))


def _two_in_one_pass(run: Run) -> nn.Module:
    """A generator and a judge with one state: both have gradients in one backward pass."""
    state = sumwire.DdpState(run.job) if run.way == HOOK else None
    first, second = run.wrap(mlp(HIDDEN), state=state), run.wrap(nn.Linear(HIDDEN, CLASSES), state=state)
    whole = nn.Sequential(first, nn.ReLU(), second)
    return run.train(whole, sgd(whole))


def _in_turns(run: Run) -> nn.Module:
    state = sumwire.DdpState(run.job) if run.way == HOOK else None
    first, second = run.wrap(mlp(), state=state), run.wrap(cnn(), state=state)
    for step in range(STEPS):
        model = (first, second)[step % 2]
        run.train(model, sgd(model, RATE / 2), range(step, step + 1))
    return first


def _wrapped_again(run: Run) -> nn.Module:
    inner = mlp()
    run.train(model := run.wrap(inner), sgd(model), range(STEPS // 2))
    return run.train(model := run.wrap(inner), sgd(model), range(STEPS // 2, STEPS))


def _unfrozen(run: Run) -> nn.Module:
    inner = mlp()
    first = next(inner.children())
    first.requires_grad_(requires_grad=False)
    run.train(model := run.wrap(inner), sgd(model), range(STEPS // 2))
    first.requires_grad_(requires_grad=True)
    return run.train(model := run.wrap(inner), sgd(model), range(STEPS // 2, STEPS))


def _branches(run: Run) -> nn.Module:
    """Ranks take different branches, and every third step all take the same one."""
    inner = Branches()
    model = run.wrap(inner, find_unused_parameters=True)
    optimizer = sgd(model)
    for step in range(STEPS):
        inner.turn = 0 if step % 3 == 0 else (step + dist.get_rank()) % 2
        run.train(model, optimizer, range(step, step + 1))
    inner.turn = 0
    return model


def _accumulated(run: Run) -> nn.Module:
    """Gradients of two batches in one step."""
    model = run.wrap(mlp())
    optimizer = sgd(model)
    for step in range(0, 2 * STEPS, 2):
        optimizer.zero_grad()
        with _without_sync(model):
            (run.loss(model, step) / 2).backward()  # type: ignore[no-untyped-call]
        (run.loss(model, step + 1) / 2).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


@contextlib.contextmanager
def _without_sync(model: nn.Module) -> Iterator[None]:
    if isinstance(model, DistributedDataParallel):
        with model.no_sync():
            yield
        return
    model.set_requires_gradient_sync(False)  # type: ignore[operator]
    yield
    model.set_requires_gradient_sync(True)  # type: ignore[operator]


def _uneven(run: Run) -> nn.Module:
    """The last rank has five batches fewer."""
    model = run.wrap(mlp())
    optimizer = sgd(model)
    last = dist.get_rank() == dist.get_world_size() - 1
    assert isinstance(model, DistributedDataParallel)
    with Join([model]):
        return run.train(model, optimizer, range(STEPS - 5 * last))


def _scaled(run: Run) -> nn.Module:
    """In float16, with a GradScaler from a scale at which gradients overflow."""
    model = run.wrap(mlp())
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=2.0**40)
    for step in range(2 * STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = run.loss(model, step)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
    return model


def _autocast(run: Run) -> nn.Module:
    model = run.wrap(mlp())
    optimizer = sgd(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = run.loss(model, step)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


def _compiled(run: Run) -> nn.Module:
    """By dynamo and AOTAutograd, without a compiler for C++."""
    model = run.wrap(mlp())
    compiled: Any = torch.compile(model, backend="aot_eager")
    run.train(compiled, sgd(model))
    return model


def _zero(run: Run) -> nn.Module:
    model = run.wrap(mlp())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=3e-3)
    return run.train(model, optimizer)


def _averaged(run: Run) -> nn.Module:
    model = run.wrap(mlp())
    mixed = get_ema_multi_avg_fn(0.8)  # type: ignore[no-untyped-call]
    optimizer, average = sgd(model), AveragedModel(model, multi_avg_fn=mixed)
    for step in range(STEPS):
        run.train(model, optimizer, range(step, step + 1))
        average.update_parameters(model)
    return average


def _resumed(run: Run) -> nn.Module:
    """Everything is saved half-way, and loaded into new objects."""
    model = run.wrap(inner := mlp())
    run.train(model, optimizer := adam(model), range(STEPS // 2))
    saved = inner.state_dict(), optimizer.state_dict(), run.state.state_dict() if run.way == HOOK else None
    model = run.wrap(inner := mlp())
    (optimizer := adam(model)).load_state_dict(saved[1])
    inner.load_state_dict(saved[0])
    if run.way == HOOK:
        run.state.load_state_dict(saved[2])
    return run.train(model, optimizer, range(STEPS // 2, STEPS))


def _idle_rank(run: Run) -> nn.Module:
    """Every fourth step rank 0 has a loss that weighs nothing."""
    model = run.wrap(mlp())
    optimizer = sgd(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        weight = 0.0 if step % 4 == 0 and dist.get_rank() == 0 else 1.0
        (weight * run.loss(model, step)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


def _twice(run: Run) -> nn.Module:
    """Two backward passes of one graph, each with a reduction of its own."""
    model = run.wrap(mlp())
    optimizer = sgd(model, RATE / 2)
    for step in range(STEPS):
        optimizer.zero_grad()
        run.loss(model, step).backward()  # type: ignore[no-untyped-call]
        run.loss(model, step + STEPS).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


def _evaluated(run: Run) -> nn.Module:
    """Evaluation between the steps, with collectives of the program's own."""
    model = run.wrap(cnn())
    optimizer = sgd(model)
    for step in range(STEPS):
        run.train(model.train(), optimizer, range(step, step + 1))
        if step % 10 == 9:
            with torch.no_grad():
                right = (model.eval()(run.data.test_x).argmax(1) == run.data.test_y).sum()
            dist.all_reduce(right)
    return model


DDP: Final[Mapping[str, Scenario]] = {
    "mlp": plainly(mlp),
    "batch norm": plainly(cnn),
    "transformer, AdamW": plainly(Encoder, adam),
    "gru": plainly(Recurrent, adam),
    "embedding": plainly(Tokens, adam),
    "sparse embedding": plainly(lambda: Tokens(sparse=True), lambda model: torch.optim.SGD(model.parameters(), lr=0.5)),
    "tied weights": plainly(Tied),
    "odd sizes": plainly(Odd),
    "float64": plainly(lambda: Cast(mlp(), torch.float64)),
    "bfloat16": plainly(lambda: Cast(mlp(), torch.bfloat16)),
    "recomputed activations": plainly(Checkpointed),
    "static graph": plainly(mlp, static_graph=True),
    "small buckets": plainly(mlp, bucket_cap_mb=0.01),
    "gradients in the buckets": plainly(mlp, loop={"to_none": False}, gradient_as_bucket_view=True),
    "fused SGD": plainly(mlp, lambda model: sgd(model, fused=True)),
    "clipped": plainly(mlp, loop={"clip": 0.5}),
    "one cycle, fused AdamW": _one_cycle,
    "two models, one pass": _two_in_one_pass,
    "two models in turns": _in_turns,
    "wrapped again": _wrapped_again,
    "unfrozen": _unfrozen,
    "branches by rank": _branches,
    "accumulated": _accumulated,
    "uneven batches": _uneven,
    "GradScaler": _scaled,
    "autocast": _autocast,
    "torch.compile": _compiled,
    "ZeRO": _zero,
    "moving average": _averaged,
    "resumed": _resumed,
    "idle rank": _idle_rank,
    "two passes": _twice,
    "evaluated between": _evaluated,
}
FSDP: Final = (
    "mlp", "batch norm", "transformer, AdamW", "gru", "embedding", "float64", "bfloat16", "clipped", "accumulated",
)  # fmt: skip


def play(name: str, scenario: Scenario, run: Run) -> Outcome:
    """Return what became of one scenario: the loss, and whether all ranks have the same parameters; or the error with
    which it was refused."""
    torch.manual_seed(1)
    try:
        model = scenario(run).eval()
    except sumwire.UsageError as error:
        return {"scenario": name, "refused": f"{type(error).__name__}: {error}"}
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(model(run.data.test_x), run.data.test_y))
        whole = [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in model.parameters()]
    words = torch.cat([p.double().flatten() for p in whole])
    low, high = words.clone(), words.clone()
    group = dist.new_group(backend=GLOO)
    dist.all_reduce(low, dist.ReduceOp.MIN, group)
    dist.all_reduce(high, dist.ReduceOp.MAX, group)
    dist.destroy_process_group(group)
    return {"scenario": name, "loss": loss, "equal": bool(torch.equal(low, high))}


@record
def main(way: str, names: Sequence[str]) -> None:
    """One rank: plays the scenarios, and rank 0 writes a line of JSON for each."""
    torch.set_num_threads(1)
    data = load()
    backend = way in {BACKEND, ONE_BIT}
    dist.init_process_group("sumwire" if backend else GLOO)
    bits = 1 if way == ONE_BIT else None
    job = sumwire.init(aggregator="rank0", bits=bits) if way in BASELINES else None
    if backend:
        sumwire.backend.use(job)
    for name in names:
        faulthandler.dump_traceback_later(_SECONDS, exit=True)
        found = play(name, DDP[name], Run(way, data, job))
        if dist.get_rank() == 0:
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
    faulthandler.cancel_dump_traceback_later()
    if job is not None:
        job.close()
    dist.destroy_process_group()


def measured(way: str, ranks: int, names: Sequence[str]) -> list[Outcome]:
    """Return what `play` found, scenario by scenario; ``error`` in place of it for one that hung or failed, after which
    the others have a new start."""
    found: list[Outcome] = []
    while len(found) < len(names):
        played, _, said = by_torchrun(Path(__file__), ranks, [way, *names[len(found) :]], _ALL_SECONDS)
        found += played
        if len(found) < len(names):
            found.append({"scenario": names[len(found)], "error": said[-2000:]})
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
