# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Wraps torch's own communication hooks: adds statistics, and makes them usable without DistributedDataParallel."""

# Annotations stay objects, not strings: DistributedDataParallel compares those of a hook.
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
    bf16_compress_hook,
    fp16_compress_hook,
)
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.futures import Future
from torch.optim import Optimizer

from sumwire.checkpoint import Content
from sumwire.errors import UsageError
from sumwire.job.rules import result_check
from sumwire.numeric import is_number, is_whole
from sumwire.training.buckets import Bucket, Buckets, Parameters
from sumwire.training.comm_thread import CommThread, queued
from sumwire.training.ddp import raise_from_backward
from sumwire.training.optim import GradientOptimizer

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket
else:
    from torch.distributed import GradBucket

Hook = Callable[[Any, GradBucket], Future[Tensor]]


class TimedHook:
    """A hook and its state, with statistics.

    ``seconds``: the time during which at least one bucket was communicated. ``sent_bytes``: the bytes that this rank
    passed to collectives; ``bytes_of(bucket)``, called after the hook, returns those of one bucket.

    ``thread`` runs buckets one after the other where gloo reduces those of ``group``. A hook that makes collectives in
    callbacks needs it: gloo runs callbacks in any order, and a callback could block the very thread that it waits for.
    ``memory``: what the hook keeps from step to step, by bucket; None for nothing.
    """

    def __init__(
        self,
        hook: Hook,
        state: object,
        bytes_of: Callable[[GradBucket], int],
        *,
        thread: CommThread | None = None,
        memory: "PowerSgdMemory | None" = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._hook = hook
        self._state = state
        self._bytes_of = bytes_of
        self._thread = thread
        self._group = group
        self._memory = memory
        self._parameters = Parameters()
        self._buckets = Buckets(self._parameters)
        self._raises = False
        self.sent_bytes = 0
        self._lock = threading.Lock()
        self._under_way = 0
        self._since = 0.0
        self.operations = 0
        self.seconds = 0.0

    def know(self, model: nn.Module) -> None:
        """Learn the numbers of a model's parameters, which are the same in another process."""
        self._parameters = Parameters(model)
        self._buckets = Buckets(self._parameters)

    def check(self, parameters: Iterable[Tensor]) -> None:
        """Raise UsageError for parameters that the hook cannot divide."""
        if self._memory is not None and any(p.dim() == 0 for p in parameters):
            raise UsageError(
                "parameter of shape (): Power-SGD needs at least one dimension: make it nn.Parameter(value.view(1))"
            )

    def kept(self) -> Content:
        """Return the hook's memory, with its buckets. Raises UsageError if there is memory but no model is known."""
        if self._memory is None:
            return Content()
        if not self._parameters.known:
            raise UsageError("hook: has no names of parameters to save: attach the system to a model")
        own = self._memory.kept()
        rest = {**own.rest, "parameters": self._parameters.shapes, **self._buckets.kept().rest}
        return Content(own.residuals, rest)

    def restore(self, content: Content, /) -> None:
        """Continue from a state. Raises UsageError for that of another model."""
        if self._memory is None:
            return
        places = self._parameters.places_of(content.rest["parameters"], "state of the hook")
        self._memory.restore(content, self._parameters.all[0].device)
        self._buckets.restore(content, places)

    def run(self, bucket: GradBucket) -> Future[Tensor]:
        """Run the hook for one bucket."""
        future = (
            self._run(bucket)
            if self._memory is None
            else self._buckets.submit(bucket, self._parameters.numbers(bucket), lambda one, _: self._run(one))
        )
        return _refusing(future, bucket) if self._raises else future

    def _run(self, bucket: GradBucket) -> Future[Tensor]:
        with self._lock:
            self.operations += 1
            self._under_way += 1
            if self._under_way == 1:
                self._since = time.monotonic()
        device = bucket.buffer().device
        if self._thread is None or not by_gloo(self._group, device):
            return self._begun(bucket).then(self._landed)
        kept, filled = cast(GradBucket, Bucket.of(bucket)), queued(device)

        def run() -> Tensor:
            if filled is not None:
                filled.synchronize()
            return self._begun(kept).wait()

        return self._thread.submit(run, device).then(self._landed)

    def refuse_nonfinite(self) -> None:
        """Let the future of a bucket whose result has NaN or infinity raise NonFiniteError, and thereby DDP's backward
        pass."""
        self._raises = True

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.close()

    def _begun(self, bucket: GradBucket) -> Future[Tensor]:
        future = self._hook(self._state, bucket)
        self.sent_bytes += self._bytes_of(bucket)
        return future

    def stats(self) -> dict[str, float]:
        """Return the same numbers as :attr:`System.stats`."""
        return {
            "operations": self.operations,
            "operation_s": self.seconds,
            "payload_bytes": float(self.sent_bytes),
        }

    def _landed(self, future: Future[Tensor]) -> Tensor:
        with self._lock:
            self._under_way -= 1
            if self._under_way == 0:
                self.seconds += time.monotonic() - self._since
        return future.value()


def _refusing(future: Future[Tensor], bucket: GradBucket) -> Future[Tensor]:
    """Return a future of the same result, or of NonFiniteError if it has NaN or infinity."""
    # Torch's `then` would make a RuntimeError of it.
    number, device = bucket.index(), bucket.buffer().device
    checked: Future[Any] = Future(devices=[device] if device.type == "cuda" else None)
    check = result_check("raise")

    def look(done: Future[Tensor]) -> None:
        try:
            result = check(done.value(), number)
        except Exception as error:  # noqa: BLE001 - any error goes to the future, or its owner would wait for ever
            checked.set_exception(error)
        else:
            checked.set_result(result)

    future.add_done_callback(look)
    raise_from_backward(checked)
    return checked


def all_reduce(group: dist.ProcessGroup | None) -> TimedHook:
    """Return the hook of S-SGD: the mean in the gradients' own precision."""
    return TimedHook(allreduce_hook, group, lambda bucket: bucket.buffer().nbytes)


def half_precision(group: dist.ProcessGroup | None, *, brain: bool = False) -> TimedHook:
    """Return the hook for the mean of gradients rounded to float16, or to bfloat16 with ``brain``."""
    hook = bf16_compress_hook if brain else fp16_compress_hook
    return TimedHook(hook, group, lambda bucket: 2 * bucket.buffer().numel())


def power_sgd(group: dist.ProcessGroup | None, *, rank: int, start_iter: int, min_compression: float) -> TimedHook:
    """Return torch's hook of Power-SGD (Vogels et al., NeurIPS 2019), with error feedback and warm start.

    The first ``start_iter`` steps, 2 or more, send whole gradients. Raises UsageError for a value out of range.
    """
    if not is_whole(rank, 1):
        raise UsageError(f"rank = {rank!r}: must be a whole number, 1 or more")
    if not is_whole(start_iter, 2):
        rule = "must be 2 or more: error feedback and warm start need buckets that DDP rebuilds no more"
        raise UsageError(f"start_iter = {start_iter!r}: {rule}")
    if not is_number(min_compression) or min_compression <= 0:
        raise UsageError(f"min_compression = {min_compression!r}: must be above 0")
    state = PowerSGDState(
        process_group=group,
        matrix_approximation_rank=rank,
        start_powerSGD_iter=start_iter,
        min_compression_rate=min_compression,
        # Without it, a zero gradient gives 0 / 0.
        orthogonalization_epsilon=1e-8,
    )
    counted = 0

    def bytes_of(bucket: GradBucket) -> int:
        nonlocal counted
        values, counted = state.total_numel_after_compression - counted, state.total_numel_after_compression
        return bucket.buffer().element_size() * (values or bucket.buffer().numel())

    thread, memory = CommThread("system powersgd"), PowerSgdMemory(state)
    return TimedHook(powerSGD_hook, state, bytes_of, thread=thread, memory=memory, group=group)


def by_gloo(group: dist.ProcessGroup | None, device: torch.device) -> bool:
    """Return whether gloo reduces tensors of a group on this device. ``group`` None is the default group."""
    chosen: Any = dist.group.WORLD if group is None else group
    return bool(chosen._get_backend(device).name() == "gloo")


class PowerSgdMemory:
    """The state of torch's Power-SGD hook between steps: errors, factors, the step and the random numbers."""

    def __init__(self, state: PowerSGDState) -> None:
        self._state = state

    def kept(self) -> Content:
        """Return the state, errors and factors by the bucket's number."""
        name, numbers, *place = cast(tuple[Any, ...], self._state.rng.get_state())
        rest = {
            "step": self._state.iter,
            "p": dict(self._state.p_memory_dict),
            "q": dict(self._state.q_memory_dict),
            "random": [name, numbers.tolist(), *place],
        }
        return Content({"errors": dict(self._state.error_dict)}, rest)

    def restore(self, content: Content, device: torch.device) -> None:
        """Continue from a state, on a device."""
        state, rest = self._state, content.rest
        state.iter = rest["step"]
        state.error_dict, state.p_memory_dict, state.q_memory_dict = (
            {bucket: tensor.to(device) for bucket, tensor in tensors.items()}
            for tensors in (content.residuals["errors"], rest["p"], rest["q"])
        )
        state.rng.set_state(tuple(rest["random"]))


def timed_hook(state: TimedHook, bucket: GradBucket) -> Future[Tensor]:
    """DDP communication hook: ``model.register_comm_hook(TimedHook(...), timed_hook)``."""
    return state.run(bucket)


class HookSync(GradientOptimizer):
    """Replaces the gradients of a plain model by a hook's result before the inner optimizer's step.

    The parameters of one dtype are one bucket. A parameter without gradient counts as zeros and gets a gradient.
    """

    def __init__(self, optimizer: Optimizer, hook: TimedHook) -> None:
        self._hook = hook
        super().__init__(optimizer)
        self._kinds = _by_kind(p for p in self._exchanged.parameters if p.numel())
        if not self._kinds:
            raise UsageError("no parameters: nothing to optimize; give some that need gradients")

    @torch.no_grad()
    def synchronize(self) -> None:
        """Aggregate the gradients, one bucket per dtype and device."""
        for number, members in enumerate(self._kinds):
            pieces = [torch.zeros_like(p) if p.grad is None else p.grad for p in members]
            flat = torch.cat([piece.reshape(-1) for piece in pieces])
            bucket = Bucket(number, number == len(self._kinds) - 1, flat, members)
            result = self._hook.run(cast(GradBucket, bucket)).wait()
            for p, piece in zip(members, torch.split(result, [p.numel() for p in members]), strict=True):
                p.grad = piece.view(p.shape)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raise an error after construction, because hooks keep state by bucket."""
        if hasattr(self, "_kinds"):
            raise UsageError("add_param_group: make a new system, its buckets have a fixed layout")
        super().add_param_group(param_group)


def _by_kind(parameters: Iterable[Tensor]) -> list[tuple[Tensor, ...]]:
    """Return the parameters by dtype and device, in their order."""
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for p in parameters:
        kinds.setdefault((p.dtype, p.device), []).append(p)
    return [tuple(members) for members in kinds.values()]
