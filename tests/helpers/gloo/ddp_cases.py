# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the DDP and fall-back tests do. Each function runs on every rank and returns plain data."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import sumwire
import torch
from golden import model as switch_model
from helpers.logs import logged
from helpers.transport.udp_bridge import SILENCE_S
from sumwire import systems
from sumwire.codec.sign import EfSignCodec, SignCodec, SsdmCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.config import parse_job
from sumwire.job.control import Change
from sumwire.job.gloo import Fallback
from sumwire.job.session import FallbackOption
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

# Packets of the greeting have this bucket or a higher one.
_GREETINGS = switch_model.OPENS_RUN


class Net(nn.Module):
    """Four layers; ``spare`` takes part only in every second step, on all ranks alike or not."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 300)
        self.middle = nn.Linear(300, 50)
        self.spare = nn.Linear(50, 50)
        self.last = nn.Linear(50, 3)

    def forward(self, x: Tensor, use_spare: bool) -> Tensor:
        x = torch.relu(self.middle(torch.relu(self.first(x))))
        out: Tensor = self.last(self.spare(x) if use_spare else x)
        return out


def open_job(rank: int, mapping: dict[str, Any], **options: Any) -> sumwire.Job:
    return sumwire.Job(parse_job(mapping, rank), block=1024, **{"silence_s": SILENCE_S, **options})


def flat_grads(model: nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() if p.grad is not None else torch.zeros(p.numel()) for p in model.parameters()])


def train(rank: int, mapping: dict[str, Any], steps: int, unused: bool, accumulate: bool, half: bool) -> dict[str, Any]:
    dtype = torch.bfloat16 if half else torch.float32
    torch.manual_seed(1)
    ours = DistributedDataParallel(Net().to(dtype), find_unused_parameters=unused, bucket_cap_mb=0.02)
    torch.manual_seed(1)
    theirs = DistributedDataParallel(Net().to(dtype), find_unused_parameters=unused, bucket_cap_mb=0.02)
    errors, sums, exact = [], torch.zeros(0), torch.zeros(0)
    with open_job(rank, mapping) as job:
        state = sumwire.DdpState(job)
        ours.register_comm_hook(state, sumwire.ddp_hook)
        generator = torch.Generator().manual_seed(100 + rank)
        for step in range(steps):
            for model in (ours, theirs):
                model.zero_grad()
            batches = [torch.randn(8, 20, generator=generator).to(dtype) for _ in range(2 if accumulate else 1)]
            use_spare = not unused or step % 2 == 0
            for model in (ours, theirs):
                if accumulate:
                    with model.no_sync():
                        model(batches[0], use_spare).square().mean().backward()
                model(batches[-1], use_spare).square().mean().backward()
            got, want = flat_grads(ours).float(), flat_grads(theirs).float()
            errors.append(float((got - want).square().sum() / want.square().sum()))
            sums = got if step == 0 else sums + got
            exact = want if step == 0 else exact + want
        stats = job.stats
        residuals = len(state.feedback) if state.feedback else 0
    return {
        "errors": errors,
        "sum_error": float((sums - exact).square().sum() / exact.square().sum()),
        "grads": got.tolist(),
        "operations": stats.operations,
        "fallbacks": stats.fallbacks,
        "residuals": residuals,
        "thread_alive": state.communicating,
    }


def joined(rank: int, mapping: dict[str, Any], by_initial: bool) -> tuple[float, list[str]]:
    """Three steps of all ranks but the first, which makes two. The last gradient's distance from gloo's, and errors."""
    models = []
    for _ in range(2):
        torch.manual_seed(1)
        models.append(DistributedDataParallel(Net(), bucket_cap_mb=0.02))
    errors = []
    with open_job(rank, mapping) as job:
        models[0].register_comm_hook(sumwire.DdpState(job, error_feedback=False), sumwire.ddp_hook)
        for model in models:
            try:
                with model.join(divide_by_initial_world_size=by_initial):
                    for step in range(2 if rank == 0 else 3):
                        model.zero_grad()
                        x = torch.randn(8, 20, generator=torch.Generator().manual_seed(10 * step + rank))
                        model(x, True).square().mean().backward()
            except sumwire.UsageError as error:
                errors.append(str(error))
    got, want = map(flat_grads, models)
    return float((got - want).square().sum() / want.square().sum()), errors


def fail_without_fallback(rank: int, mapping: dict[str, Any]) -> dict[str, Any]:
    """No switch, no fall-back: what backward() raises, then and afterwards."""
    torch.manual_seed(1)
    model = DistributedDataParallel(Net(), bucket_cap_mb=0.02)
    raised = []
    with open_job(rank, mapping, fallback="never") as job:
        model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
        try:
            model(torch.randn(8, 20), True).square().mean().backward()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            raised.append((type(error).__name__, str(error)))
    return {"raised": raised}


def one_comes_late(rank: int, mapping: dict[str, Any], late: int) -> tuple[str, int, list[float]]:
    """The first sum of all ranks, which ``late`` begins when the others have waited for it so long that they take
    their exchange for stalled. Returns an error, how often the job has fallen back, and the sum's first values."""
    text, values = "", []
    with open_job(rank, mapping) as job:
        try:
            if rank == late:
                control = job._session._control  # type: ignore[attr-defined]
                with control._changed:
                    others = len(mapping["addresses"]) - 1
                    assert control._changed.wait_for(
                        lambda: control._member.ended or sum(one.stalled for one in control._vector) == others, 50
                    )
            values = job.reduce(torch.full((100,), rank + 1.0))[0].tolist()[:3]
        except sumwire.SumwireError as error:
            text = f"{type(error).__name__}: {error}"
        fallbacks = job.stats.fallbacks
    return text, fallbacks, values


class CallNumbers:
    """Which operation of a job a packet is of, by the order in which their tags are first seen."""

    def __init__(self) -> None:
        self._tags: list[int] = []

    def of(self, packet: switch_model.Packet) -> int:
        """-1 for a packet of the greeting, a HELLO and its answer."""
        if packet.bucket >= _GREETINGS or packet.op == switch_model.NO_OP:
            return -1
        if packet.bucket not in self._tags:
            self._tags.append(packet.bucket)
        return self._tags.index(packet.bucket)


def operations(
    rank: int, mapping: dict[str, Any], counts: list[int], length: int, fallback: FallbackOption = "auto"
) -> dict[str, Any]:
    """``counts[rank]`` all-reduces, bucket k = operation k, of tensors that :func:`inputs` tells the test too."""
    results, residuals, error = [], [], ""
    changes: list[Change] = []
    try:
        with logged(level=logging.WARNING) as lines, open_job(rank, mapping, fallback=fallback) as job:
            job.on_change(changes.append)
            for number in range(counts[rank]):
                tensor = inputs(rank, number, length)
                results.append(sumwire.all_reduce(tensor, job, feedback="x", bucket=number).tolist())
                residuals.append(job.feedback.compensate("x", torch.zeros(length)).tolist())
            fallen = job.fallen_back
    except sumwire.SumwireError as raised:
        error, fallen = f"{type(raised).__name__}: {raised}", job.fallen_back
    return {
        "results": results,
        "residuals": residuals,
        "error": error,
        "fallen": fallen,
        "log": [line["message"] for line in lines],
        "fallbacks": job.stats.fallbacks,
        "ordinary": job.stats.fallback_operations,
        "changes": changes,
    }


def collectives(rank: int, mapping: dict[str, Any], length: int) -> list[list[int]]:
    """Every collective without a codec, as integers, one after the other."""
    with open_job(rank, mapping, fallback="always") as job:
        plus = inputs(rank, 0, length) >= 0
        lanes = torch.arange(length, dtype=torch.int32).mul_(rank + 1).numpy()
        outcome = [
            job.vote(plus).int().tolist(),
            job.sign_merge(plus).int().tolist(),
            job.sum32(lanes).tolist(),
            job.max32(lanes.astype(np.uint32) + np.uint32(2**31)).tolist(),
            job.min32(lanes.astype(np.uint32) + np.uint32(2**31)).tolist(),
        ]
        try:
            job.sum32(np.full(3, 2**30, np.int32))
        except sumwire.SumOverflowError as error:
            outcome.append([len(str(error)) > 0])
        outcome.append([job.stats.fallbacks, job.stats.fallback_operations, job.stats.operations])
    return outcome


def reductions(rank: int, ufuncs: list[str], numbers: list[list[int]]) -> list[list[int]]:
    """What the process group makes of the ranks' numbers."""
    fallback = Fallback(lambda: None)
    found = [fallback.elementwise(ufunc, torch.tensor(numbers[rank])).tolist() for ufunc in ufuncs]
    fallback.close()
    return found


def bad_after_fall_back(rank: int, mapping: dict[str, Any]) -> dict[str, Any]:
    """Where the results of a tensor with one bad value on rank 1 are not finite, by codec; and agreements."""
    x = torch.arange(9.0) - 4.5
    if rank == 1:
        x[3] = torch.nan
    codecs = {
        "sum32": Sum32Codec(workers=4),
        "sign": SignCodec(),
        "vote": VoteCodec(),
        "ef-sign": EfSignCodec(workers=4),
        "ssdm": SsdmCodec(job=1, worker=rank),
    }
    with open_job(rank, mapping, fallback="always") as job:
        results = {"thc": job.reduce(x)[0]} | {name: job.reduce_with(c, x)[0] for name, c in codecs.items()}
        agreed = [job.all_finite(rank != 2), job.all_finite(True)]
        return {
            "bad": {name: result.isfinite().logical_not().nonzero()[:, 0].tolist() for name, result in results.items()},
            "agreed": agreed,
            "fallen": job.fallen_back,
        }


def twins(rank: int, mapping: dict[str, Any], other: str, steps: int) -> dict[str, Any]:
    """Two models with one loss, as twin critics have it: one with the hook, the other with it, with the same state
    (other="state") or a system ``other``.

    Both use one job. Returns the NMSE of each model's gradients in each step, against DDP's own all-reduce, or of those
    of the first alone; and the second's gradients.
    """

    def made(seed: int) -> DistributedDataParallel:
        torch.manual_seed(seed)
        return DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)))

    plain, ours = ([made(1), made(2)] for _ in range(2))
    generator = torch.Generator().manual_seed(100 + rank)
    errors, gradients = [], []
    with open_job(rank, mapping) as job:
        state = sumwire.DdpState(job)
        ours[0].register_comm_hook(state, sumwire.ddp_hook)
        if hooked := other in ("hook", "state"):
            ours[1].register_comm_hook(state if other == "state" else sumwire.DdpState(job), sumwire.ddp_hook)
        else:
            system = systems.make(other, job, rank=4, min_compression=1.0)
            optimizer: Any = system.attach(ours[1], torch.optim.SGD(ours[1].parameters(), lr=0.0))
        for _ in range(steps):
            x = torch.randn(32, 64, generator=generator)
            for first, second in (plain, ours):
                first.zero_grad()
                second.zero_grad()
                (3 * first(x).square().mean() + second(x).add(5).square().mean()).backward()
            if not hooked:
                optimizer.step()
            compared = zip(plain, ours, strict=True) if hooked else [(plain[0], ours[0])]
            for want, got in ((flat_grads(one), flat_grads(two)) for one, two in compared):
                errors.append(float((got - want).square().sum() / want.square().sum()))
            gradients.append(flat_grads(ours[1]).tolist())
        if not hooked:
            system.close()
    return {"errors": errors, "gradients": gradients}


def inputs(rank: int, number: int, length: int) -> Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(1000 * rank + number))
