# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the tests of `sumwire.init` do. Each function runs on every rank and returns plain data."""

from __future__ import annotations

import contextlib
import os
from datetime import timedelta
from typing import Any
from unittest import mock

import sumwire
import torch
import torch.distributed as dist
from helpers.gloo.ddp_cases import Net, flat_grads
from helpers.logs import logged, of
from sumwire.errors import ClosedError, SumwireError
from sumwire.job.job import Job
from sumwire.start import auto, paths, rank_placement, trial
from sumwire.start.paths import Paths
from sumwire.start.rendezvous import Rendezvous
from sumwire.systems.pays import HostCost, Measured
from sumwire.training.hierarchical import AnyJob, NodeJob, RankGroup
from sumwire_protocol.events import Event
from torch.nn.parallel import DistributedDataParallel

LENGTH = 5000
INTEGER_TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
# A fast machine's.
COSTS = Measured(
    {"ssgd": HostCost(3e-9), "fp16": HostCost(4e-9), **dict.fromkeys(("sum32", "thc", "thc-wide"), HostCost(9e-9))},
    step_s=1e-4,
)
# A job between two cases.
_OPEN: list[AnyJob] = []


def tensor_of(rank: int) -> torch.Tensor:
    return torch.randn(LENGTH, generator=torch.Generator().manual_seed(rank))


def opened(options: dict[str, Any]) -> AnyJob:
    return sumwire.init(quiet=True, block=1024, **options)


def reduced(rank: int, options: dict[str, Any]) -> dict[str, Any]:
    """A mean, a sum, and what this rank's worker has sent."""
    with opened(options) as job:
        mean = sumwire.all_reduce(tensor_of(rank), job)
        total = sumwire.all_reduce(tensor_of(rank), job, op="sum")
        sent = job.stats.bytes_sent
        kind = type(job).__name__
    return {"mean": mean.tolist(), "sum": total.tolist(), "bytes": sent, "kind": kind}


def with_feedback(rank: int, options: dict[str, Any], rounds: int) -> dict[str, Any]:
    """One tensor again and again: with feedback the sum of the means comes near."""
    total = torch.zeros(LENGTH)
    with opened(options) as job:
        for _ in range(rounds):
            total += sumwire.all_reduce(tensor_of(rank), job, feedback="x")
    return {"mean": (total / rounds).tolist()}


def trained(rank: int, options: dict[str, Any], steps: int) -> dict[str, Any]:
    """DDP steps over the job, beside DDP's own."""
    ours, theirs = _two_models()
    with opened(options) as job:
        state = sumwire.DdpState(job)
        ours.register_comm_hook(state, sumwire.ddp_hook)
        outcome = _stepped(rank, ours, theirs, steps)
        fallbacks, residuals = job.stats.fallbacks, 0 if state.feedback is None else len(state.feedback)
    return {**outcome, "fallbacks": fallbacks, "residuals": residuals}


def by_system(rank: int, options: dict[str, Any], between: list[float] | None, steps: int) -> dict[str, Any]:
    """DDP steps by a system of `init`, beside DDP's own. ``between``: bit/s and seconds in place of measured ones, and
    costs in place of measured ones."""
    ours, theirs = _two_models()
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(logged())
        if between:
            found = Paths(dist.get_world_size(), *between)
            stack.enter_context(mock.patch.object(paths, "measured", return_value=found))
            stack.enter_context(mock.patch.object(trial, "measured", return_value=COSTS))
        system = sumwire.init(quiet=True, **{"model": theirs, **options})
    try:
        system.attach(ours, torch.optim.SGD(ours.parameters(), lr=0.1))
        outcome = _stepped(rank, ours, theirs, steps)
        operations, job = system.stats["operations"], system.job
    finally:
        system.close()
    closed = job is None or _is_closed(job)
    chosen = [line["system"] for line in of(lines, Event.SYSTEM_CHOSEN)]
    return {**outcome, "name": system.name, "operations": operations, "closed": closed, "chosen": chosen}


def _two_models() -> list[DistributedDataParallel]:
    """Equal ones."""
    models = []
    for _ in range(2):
        torch.manual_seed(1)
        models.append(DistributedDataParallel(Net(), bucket_cap_mb=0.02))
    return models


def _stepped(rank: int, ours: DistributedDataParallel, theirs: DistributedDataParallel, steps: int) -> dict[str, Any]:
    """Our last gradients, and the squared error of their sum over the steps."""
    sums, exact = torch.zeros(0), torch.zeros(0)
    generator = torch.Generator().manual_seed(100 + rank)
    for step in range(steps):
        batch = torch.randn(8, 20, generator=generator)
        for model in (ours, theirs):
            model.zero_grad()
            model(batch, True).square().mean().backward()
        got, want = flat_grads(ours), flat_grads(theirs)
        sums, exact = (got, want) if step == 0 else (sums + got, exact + want)
    return {"grads": got.tolist(), "error": float((sums - exact).square().sum() / exact.square().sum())}


def _is_closed(job: Job) -> bool:
    try:
        job.reduce(torch.ones(8))
    except ClosedError:
        return True
    return False


def line_of_auto(rank: int, values: int, aggregator_rate: str | None) -> tuple[str, str]:
    """What is chosen, and why: for a model of so many values by what is really measured here."""
    store = dist.distributed_c10d._get_default_store()
    # Rank 0 makes steps first, for a minute on a busy machine.
    meeting = Rendezvous(store, rank, dist.get_world_size(), timedelta(minutes=5))
    model = torch.nn.Linear(values, 1, bias=False) if values else None
    with contextlib.nullcontext() if model else mock.patch.object(trial, "measured", return_value=COSTS):
        choice = auto.choose(meeting, auto.Asked(model, aggregator_rate))
    return choice.system, choice.line


def raised(rank: int, options: dict[str, Any]) -> str:
    """The error that `init`, or a mean with its job, ends with."""
    try:
        with opened(options) as job:
            sumwire.all_reduce(tensor_of(rank), job)
    except sumwire.SumwireError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def raised_beside_another_version(rank: int, options: dict[str, Any]) -> str:
    """As :func:`raised`, with another version of sumwire on the last rank."""
    with contextlib.ExitStack() as stack:
        if rank == dist.get_world_size() - 1:
            stack.enter_context(mock.patch.object(rank_placement, "__version__", "0.0.9"))
        return raised(rank, options)


def raised_with_file_on(rank: int, path: str, named: int) -> str:
    """As :func:`raised`, with SUMWIRE_JOB in the environment of one rank alone."""
    with mock.patch.dict(os.environ, {"SUMWIRE_JOB": path} if rank == named else {}):
        return raised(rank, {})


def in_local_groups(rank: int, mapping: dict[str, Any], size: int) -> dict[str, Any]:
    """`DdpState(job, local_group=...)`, with a job that the caller makes on the first rank of each group."""
    from sumwire.config import parse_job
    from sumwire.start.rendezvous import Rendezvous
    from sumwire.start.script import default_timeout

    ranks = dist.get_world_size()
    local, _ = dist.new_subgroups(size)
    firsts = tuple(range(0, ranks, size))
    meeting = Rendezvous(dist.distributed_c10d._get_default_store(), rank, ranks, default_timeout())
    meeting.gather(None)
    job = None
    if rank in firsts:
        config = parse_job(mapping, firsts.index(rank))
        job = sumwire.Job(config, ranks=meeting.among(firsts), block=1024)
    torch.manual_seed(1)
    model = DistributedDataParallel(Net(), bucket_cap_mb=0.02)
    state = sumwire.DdpState(job, local_group=local)
    model.register_comm_hook(state, sumwire.ddp_hook)
    batch = torch.randn(8, 20, generator=torch.Generator().manual_seed(rank))
    model(batch, True).square().mean().backward()
    state.close()
    if job is not None:
        job.close()
    return {"grads": flat_grads(model).tolist()}


def interrupted(rank: int, options: dict[str, Any], who: int) -> list[str]:
    """Two operations, the first of which rank ``who`` leaves by Ctrl-C: what each rank is told."""
    job = opened(options)
    assert isinstance(job, NodeJob)
    sumwire.all_reduce(torch.ones(9), job)
    if rank == who:
        # Where it waits: the first rank for the network, another one for the first.
        target, name = (job.node, "take") if job.job is None else (job.job._session, "carry_out")
        setattr(target, name, _leaves)
    told = []
    for _ in range(2):
        try:
            sumwire.all_reduce(torch.ones(9), job)
            told.append("")
        except (SumwireError, KeyboardInterrupt) as error:
            told.append(f"{type(error).__name__}: {error}")
    job.close(agree=False)
    return told


def _leaves(*arguments: Any) -> Any:
    raise KeyboardInterrupt


def in_a_fork(rank: int, options: dict[str, Any]) -> str:
    """What a forked child that uses the job is told."""
    with opened(options) as job:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            text = "no error"
            try:
                sumwire.all_reduce(torch.ones(9), job)
            except SumwireError as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writer, text.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as told:
            text = told.read()
        os.waitpid(child, 0)
        sumwire.all_reduce(torch.ones(9), job)
    return text


def order_of_collectives(rank: int, nodes: list[list[int]]) -> list[str]:
    """Whether the sum of a second bucket is made before the first one has its result."""
    node = RankGroup.among(nodes)
    first, second = torch.full((1000,), float(rank)), torch.full((1000,), 10.0 + rank)
    ready = [node.sum_up(first), node.sum_up(second)]
    said = []
    if node.leads:
        ready[1]()
        said = [f"second {float(second[0])}"]
        ready[0]()
        node.give(lambda: first)
        node.give(lambda: second)
    else:
        node.take(first)
        node.take(second)
    return [*said, f"{float(first[0])} {float(second[0])}"]


def totals(rank: int, options: dict[str, Any]) -> dict[str, Any]:
    """Exact sums over all ranks of integers, and a mean at eight bits."""
    with opened(options) as job:
        integers = sumwire.all_reduce(torch.arange(100, dtype=torch.int32) * (rank + 1), job, op="sum")
        mean = sumwire.all_reduce(tensor_of(rank), job, precision="8bit")
    return {"integers": integers.tolist(), "mean": mean.tolist()}


def sums_of_all_types(rank: int, options: dict[str, Any]) -> dict[str, list[int] | str]:
    """For each integer type: sums that wrap around, or why there is none; then a mean, since the job goes on."""
    found: dict[str, list[int] | str] = {}
    with opened(options) as job:
        for name in INTEGER_TYPES:
            dtype = getattr(torch, name)
            most = int(dtype == torch.bool) or torch.iinfo(dtype).max
            x = torch.tensor([rank, rank % 2, most], dtype=dtype)
            try:
                found[name] = [int(value) for value in sumwire.all_reduce(x, job, op="sum").tolist()]
            except sumwire.UsageError as error:
                found[name] = str(error)
        sumwire.all_reduce(tensor_of(rank), job)
    return found


def under_another_default_device(rank: int, options: dict[str, Any]) -> list[list[float]]:
    """Results for tensors of processors where torch makes new ones elsewhere, as after `set_default_device`."""
    floats, integers = tensor_of(rank), torch.full((LENGTH,), rank, dtype=torch.int32)
    # As a GPU, it takes part in no operation with tensors of processors.
    with torch.device("meta"), opened(options) as job:
        results = [
            sumwire.all_reduce(floats.clone(), job),
            sumwire.all_reduce(floats.clone(), job, precision="8bit", feedback="x"),
            sumwire.all_reduce(floats.clone(), job, op="sum", precision="exact"),
            sumwire.all_reduce(integers.clone(), job, op="sum"),
            sumwire.all_reduce(integers.to(torch.int16), job, op="sum"),
        ]
    return [result.tolist() for result in results]


def begun(rank: int, options: dict[str, Any]) -> tuple[int, int]:
    """A job that stays open for `until_returned`, and its first mean: fall-backs and returns so far."""
    _OPEN.append(opened(options))
    sumwire.all_reduce(tensor_of(rank), _OPEN[0])
    return _OPEN[0].stats.fallbacks, _OPEN[0].stats.returns


def until_returned(rank: int, most: int) -> dict[str, Any]:
    """Means until both workers have returned to the network, and one more."""
    means = []
    with _OPEN.pop() as job:
        for _ in range(most):
            means.append(sumwire.all_reduce(tensor_of(rank), job)[:100].tolist())
            back = torch.tensor([float(job.stats.returns)])
            dist.all_reduce(back)
            if back == 2:
                break
        means.append(sumwire.all_reduce(tensor_of(rank), job)[:100].tolist())
        fallen, returns = job.fallen_back, job.stats.returns
    return {"means": means, "fallen": fallen, "returns": returns}
