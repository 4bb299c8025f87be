# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Outer steps over slow links: DiLoCo (arXiv 2311.08105), and its streaming form (arXiv 2501.18512).

    optimizer = sumwire.optim.Outer(torch.optim.AdamW(model.parameters()), job, every=50)
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss(model(inputs), labels).backward()           # a plain model: no all-reduce of gradients
        optimizer.step()                                 # a local step; after every 50th one an outer step

All workers start with the same parameters, and after each outer step have equal parameters again, bit by bit. A model's
parts are exchanged in turn: the fragments of streaming DiLoCo. :func:`broadcast_state` brings one worker's state to
all.
"""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, SupportsIndex, TypeVar, overload

import numpy as np
import torch
from sumwire_protocol.events import Event
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.futures import Future
from torch.optim import Optimizer

from sumwire.checkpoint import OTHER, Content, Place, Saved, owner_of, place_of, refuse_pickling
from sumwire.codec.tensors import all_finite
from sumwire.errors import UsageError
from sumwire.job.job import Job, Residual
from sumwire.training.all_reduce import DEFAULT, Precision, check_precision, mean_at
from sumwire.training.comm_thread import CommThread, wait_for
from sumwire.training.ddp import Reduce
from sumwire.training.flat import Exchanged, FlatParameters
from sumwire.training.global_step import are_finite, expect_scaler, is_unscaled
from sumwire.training.hierarchical import AnyJob, NodeJob
from sumwire.training.optim import Inner, check_closure, owner_state, restore_owner

_BUCKET: Final = 0x3FFF
_WORD: Final = 4
_BYTES_MAX: Final = (1 << 32) - 1


def broadcast_state(job: Job, source: int, state: dict[str, Any] | None) -> dict[str, Any]:
    """Return worker ``source``'s ``state`` on all workers. It may contain anything that torch.load reads with
    ``weights_only``.

    All workers call it; the ``state`` of the others is ignored. It costs 32 bits up and down for 32 bits of state.
    Raises UsageError for a source that the job does not have, a quorum below the workers, or 4 GiB and more; and the
    errors of :meth:`Job.sum32`.
    """
    if not 0 <= source < job.workers:
        raise UsageError(f"source = {source}: must be a worker of the job, 0 to {job.workers - 1}")
    if job.config.quorum < job.workers:
        rule = f"must be {job.workers}, all workers: a sum could lack the source's state"
        raise UsageError(f"quorum = {job.config.quorum}: {rule}")
    content = b""
    if job.config.worker == source:
        file = io.BytesIO()
        torch.save(state, file)
        content = file.getvalue()
        if len(content) > _BYTES_MAX:
            raise UsageError(f"state of {len(content)} bytes: at most {_BYTES_MAX} are told at once: use more parts")
    size = int(job.max32(np.array([len(content)], np.uint32), _BUCKET)[0])
    words = np.zeros(-(-size // _WORD), np.int32)
    words.view(np.uint8)[: len(content)] = np.frombuffer(content, np.uint8)
    told = job.sum32(words, _BUCKET)
    # Not on the source's GPU, by a number that may be another worker's here, or nobody's.
    found: dict[str, Any] = torch.load(io.BytesIO(told.tobytes()[:size]), map_location="cpu", weights_only=True)
    return found


# Makes the optimizer of the outer steps from the tensors that it shall change.
MakeOuter = Callable[[list[Tensor]], Optimizer]


class OuterPart:
    """A part of a model's parameters. ``shared``: their values after the latest outer step, flat, float32 or float64,
    with equal bits on all workers. ``outer``: the optimizer that changes them. ``residual``: what compression lost of
    the latest pseudo-gradient, float32, this worker's own. ``compared``: whether workers have compared ``shared``."""

    def __init__(self, number: int, parameters: Sequence[Tensor], make: MakeOuter) -> None:
        self.number = number
        self.flat = FlatParameters(parameters)
        self.shared = self.flat.read()
        self.outer = make([self.shared])
        self.residual: Tensor | None = None
        self.compared = False

    def drift(self) -> Tensor:
        """Return how far the local steps have moved: shared minus parameters, float32."""
        return (self.shared - self.flat.read()).to(torch.float32)

    def pseudo_gradient(self) -> Tensor:
        """Return the drift plus the residual of the last pseudo-gradient, a new tensor."""
        drift = self.drift()
        return drift if self.residual is None else drift.add_(self.residual)

    def move(self, mean: Tensor) -> None:
        """Make the outer step with the workers' mean pseudo-gradient, flat."""
        # A copy: the job's results must not be changed.
        self.shared.grad = mean.to(self.shared.device, self.shared.dtype, copy=True)
        self.outer.step()
        self.shared.grad = None

    def adopt(self, mix: float = 0.0) -> None:
        """Set the parameters to ``mix`` times their own values plus 1 - ``mix`` times ``shared``."""
        values = self.shared.clone()
        if mix:
            values.lerp_(self.flat.read(), mix)
        self.flat.write(values)

    def digest(self) -> str:
        """Return 64 bits of a hash of ``shared``, as hexadecimal digits."""
        return hashlib.blake2b(self.shared.cpu().numpy().tobytes(), digest_size=8).hexdigest()


def parts_of(parameters: Sequence[Tensor], count: int, make: MakeOuter) -> list[OuterPart]:
    """Cut parameters, in order, into ``count`` parts of about equal size. Raises UsageError for too many parts."""
    if not 1 <= count <= len(parameters):
        raise UsageError(f"parts = {count}: must be 1 to {len(parameters)}, the model's parameters")
    whole = sum(p.numel() for p in parameters)
    cut: list[list[Tensor]] = [[] for _ in range(count)]
    number = taken = 0
    for place, parameter in enumerate(parameters):
        left = len(parameters) - place
        # Each later part needs a parameter of its own.
        if cut[number] and number + 1 < count and (taken * count >= whole * (number + 1) or left == count - number - 1):
            number += 1
        cut[number].append(parameter)
        taken += parameter.numel()
    return [OuterPart(number, piece, make) for number, piece in enumerate(cut)]


_Loss = TypeVar("_Loss")
_LOG: Final = logging.getLogger("sumwire")
LR: Final = 0.7
MOMENTUM: Final = 0.9
"""DiLoCo's, with Nesterov's form of it."""


def nesterov(parameters: list[Tensor]) -> Optimizer:
    """Return DiLoCo's outer optimizer: SGD with Nesterov momentum, learning rate 0.7, momentum 0.9."""
    return torch.optim.SGD(parameters, lr=LR, momentum=MOMENTUM, nesterov=True)


@dataclass(frozen=True)
class _SentGradient:
    """A pseudo-gradient under way, and the local step before which its outer step is made."""

    part: OuterPart
    due: int
    # The mean, and what it lost of this worker's.
    answer: Future[tuple[Tensor, Tensor]]


class Outer(Saved, Optimizer):
    """One worker's optimizer: ``step()`` makes a local step by the inner ``optimizer``; after every ``every``-th one
    all workers make an outer step, with x the parameters after the last one:

    1. pseudo-gradient g = x minus the parameters, plus the residual of the last one;
    2. G = the workers' mean of g at ``precision`` (:mod:`sumwire.training.all_reduce`), over ``job``. What G lacks of
       this worker's g is the next residual, unless ``error_feedback`` is False;
    3. the outer optimizer moves x by G, and all workers go on from x, which has equal bits on all of them.

    ``outer`` makes the outer optimizer from the tensors that it shall change: by default :func:`nesterov`.

    ``parts``: the model is cut into so many parts of about equal size, and one after the other has its outer step, each
    after ``every`` local steps, evenly spread: streaming DiLoCo. ``overlap``: how many local steps are made while a
    pseudo-gradient travels; then the parameters become ``mix`` times their own value and 1 - ``mix`` times x. With
    overlap ``shared`` has equal bits on all workers, and the parameters do only with ``mix=0``. Meanwhile the job takes
    no other operations.

    ``reduce(flat float32 tensor, number of the part)`` replaces the job. It returns the mean and a function for the
    residual: :func:`sumwire.reductions.through_group`, or a call of any other library.

    The first outer step of each part compares the workers' x by a hash, and raises OrderError if they differ. If G has
    NaN or infinity, all workers go back to x, and residuals stay. In a job with a quorum below the workers, a straggler
    takes the outer steps that the others have made without it, and keeps its pseudo-gradient as residual; this needs
    "4bit" and no overlap. :meth:`change` continues with other workers. A GradScaler skips local steps of this worker
    only.

    State: shared parameters, the outer and inner optimizers', counters, and this worker's residuals.
    """

    # GradScaler.step calls the optimizer whatever the own gradients are (sumwire.training.global_step).
    _step_supports_amp_scaling = True

    def __init__(
        self,
        optimizer: Optimizer,
        job: AnyJob | None,
        *,
        every: int,
        precision: Precision = DEFAULT,
        error_feedback: bool = True,
        outer: MakeOuter = nesterov,
        parts: int = 1,
        overlap: int = 0,
        mix: float = 0.5,
        reduce: Reduce | None = None,
    ) -> None:
        check_precision(precision)
        check_closure(optimizer)
        _check(job, reduce, every=every, parts=parts, overlap=overlap, mix=mix)
        self.inner = optimizer
        self.every, self.overlap, self.mix = every, overlap, mix
        self.precision: Precision = precision
        self.job = job
        # Local steps, and outer steps of parts, that were begun.
        self.steps = self.exchanges = 0
        self._error_feedback = error_feedback
        self._reduce = reduce
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self._exchanged = Exchanged(optimizer, self)
        self.parts = parts_of(self._exchanged.parameters, parts, outer)
        self._sent: list[_SentGradient] = []
        self._attend()
        expect_scaler()

    @property
    def shared(self) -> Tensor:
        """A copy of all parameters after the latest outer steps, flat, with equal bits on all workers."""
        return torch.cat([part.shared for part in self.parts])

    @overload
    def step(self, closure: None = None, *, grad_scaler: GradScaler | None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], _Loss], *, grad_scaler: GradScaler | None = None) -> _Loss: ...

    def step(self, closure: Callable[[], Any] | None = None, *, grad_scaler: GradScaler | None = None) -> Any:
        """Make a local step, and the outer steps that are due after it. ``closure`` is evaluated once, before it.

        ``grad_scaler`` is given by GradScaler.step. Raises the job's errors, after the local step. Raises UsageError,
        before the local step, for a parameter that did not need gradients when this optimizer was made, because it is
        not exchanged.
        """
        self._exchanged.check()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            if grad_scaler is not None and not is_unscaled(grad_scaler, self):
                grad_scaler.unscale_(self)
            if grad_scaler is None or are_finite(grad_scaler, self):
                self.inner.step()
            self.steps += 1
            self._land(self.steps)
            if self.steps >= self._due():
                self._exchange()
        return loss

    def settle(self) -> None:
        """Complete the outer steps of all pseudo-gradients under way. All workers call it, between steps."""
        with torch.no_grad():
            self._land(None)

    def change(self, job: Job, *, source: int = 0) -> None:
        """Continue with another job, which may have other workers. Call it between outer steps.

        A collective call of all workers of the new job. All take worker ``source``'s shared parameters, outer
        optimizers and counters, exactly: 32 bits for each 32 bits of them, by the op sum32. A worker of the old job
        keeps its residual; local steps since the last outer step are lost. Exchanges under way are first completed with
        the old workers (:meth:`settle`). Raises UsageError with a reduction instead of a job, or a quorum below the
        workers.
        """
        if self._reduce is not None or isinstance(job, NodeJob):
            raise UsageError("change: needs a Job with a rank for each worker: make a new Outer and load its state")
        self.settle()
        self._thread.close()
        with torch.no_grad():
            for part in self.parts:
                told = broadcast_state(job, source, _kept_part(part) | {"counters": [self.steps, self.exchanges]})
                _restore_part(part, told)
                part.adopt()
                self.steps, self.exchanges = told["counters"]
        self.job = job
        self._attend()

    def _due(self) -> int:
        """The local step after which the next part is exchanged."""
        return (self.exchanges + 1) * self.every // len(self.parts)

    def _exchange(self) -> None:
        if self._behind():
            self._catch_up()
            return
        part = self._next_part()
        call = partial(self._mean, part, part.pseudo_gradient(), self._given(part))
        if self.overlap:
            self._sent.append(
                _SentGradient(part, self.steps + self.overlap, self._thread.submit(call, part.shared.device))
            )
        else:
            self._outer_step(part, *call())

    def _next_part(self) -> OuterPart:
        part = self.parts[self.exchanges % len(self.parts)]
        self.exchanges += 1
        return part

    def _given(self, part: OuterPart) -> str:
        """What workers compare with the call; nothing where a sum may lack a worker, which then follows."""
        if part.compared or self._may_lack_some():
            return ""
        part.compared = True
        return f"outer step from {part.digest()}"

    def _mean(self, part: OuterPart, gradient: Tensor, given: str) -> tuple[Tensor, Tensor]:
        mean, residual = self._reduced(part.number, gradient, given)
        # What is kept is copied: a job uses the memory of its results again.
        return mean.clone(), residual() if self._error_feedback else torch.zeros(0, dtype=torch.float32, device="cpu")

    def _reduced(self, number: int, x: Tensor, given: str) -> tuple[Tensor, Residual]:
        if self._reduce is not None:
            return self._reduce(x, number)
        if isinstance(self.job, NodeJob):
            return self.job.mean(x, lambda own, node: mean_at(self.precision, own, node, number, given=given))
        assert self.job is not None
        return mean_at(self.precision, self.job, x, number, given=given)

    def _land(self, step: int | None) -> None:
        """Make the outer steps that are due at a local step; None: all."""
        while self._sent and (step is None or self._sent[0].due <= step):
            sent = self._sent.pop(0)
            self._outer_step(sent.part, *wait_for(sent.answer))

    def _outer_step(self, part: OuterPart, mean: Tensor, residual: Tensor) -> None:
        if not all_finite(mean):
            _LOG.warning(
                "outer step %d: some worker's parameters have NaN or infinity: all go back, and what inner "
                "optimizers have kept of them is set to 0",
                self.exchanges, extra=Event.STEP_REVERTED(step=self.exchanges),
            )  # fmt: skip
            part.adopt()
            _forget_nonfinite(self.inner)
            return
        if self._error_feedback:
            part.residual = residual
        part.move(mean)
        part.adopt(self.mix if self.overlap else 0.0)

    def _may_lack_some(self) -> bool:
        return isinstance(self.job, Job) and self.job.config.quorum < self.job.workers

    def _behind(self) -> bool:
        return self._may_lack_some() and isinstance(self.job, Job) and self.job.results_ahead()

    def _catch_up(self) -> None:
        """Take the outer steps that other workers have made without this one. What it has done locally meanwhile is its
        residual of the parts that it follows."""
        assert isinstance(self.job, Job)
        while self.job.results_ahead():
            self.steps = max(self.steps, self._due())
            part = self._next_part()
            residual = part.pseudo_gradient()
            self._outer_step(part, self.job.follow(len(part.shared), part.number), residual)

    def _attend(self) -> None:
        """Check the job, and make a thread for it, which ends with the job."""
        if self._may_lack_some() and (self.overlap or self.precision != DEFAULT):
            raise UsageError(
                "outer steps with a quorum below the workers: a straggler follows plain exchanges at 4 bits only: use "
                f"precision={DEFAULT!r} and overlap=0"
            )
        self._thread = CommThread.of(self.job, "outer steps")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raise an error after construction, because the parts are laid out once."""
        if hasattr(self, "parts"):
            raise UsageError("add_param_group: make a new Outer, its parts have a fixed layout")
        super().add_param_group(param_group)

    def place(self) -> Place:
        return place_of(owner_of(self._owner()))

    def kept(self) -> Content:
        """Return residuals, shared parameters, all optimizers' states, counters, and the job's or reduction's state.
        Waits for exchanges under way; the state includes them."""
        sent = [{"part": one.part.number, "due": one.due, "answer": [*wait_for(one.answer)]} for one in self._sent]
        rest = {
            **Inner(self.inner).kept().rest,
            "counters": [self.steps, self.exchanges],
            "parts": [_kept_part(part) | {"master": part.flat.master} for part in self.parts],
            "sent": sent,
        }
        residuals = {str(part.number): part.residual for part in self.parts}
        own = Content(residuals, rest)
        return Content.joined({"optimizer": own, **owner_state(self._owner())})

    def restore(self, content: Content, /) -> None:
        """Continue from a state. Raises UsageError for another number of parts."""
        own = content.part("optimizer", self.kind())
        saved = own.rest["parts"]
        if len(saved) != len(self.parts):
            raise UsageError(f"state of {self.kind()}: has {len(saved)} parts, here are {len(self.parts)}: {OTHER}")
        Inner(self.inner).restore(own)
        # It has made new groups.
        self.param_groups = self.inner.param_groups
        restore_owner(self._owner(), content, self.kind())
        self.steps, self.exchanges = own.rest["counters"]
        for part, kept in zip(self.parts, saved, strict=True):
            _restore_part(part, kept)
            part.residual = _beside(own.residuals[str(part.number)], part)
            part.flat.master = _beside(kept["master"], part)
        self._sent = [self._arrived(**one) for one in own.rest["sent"]]

    def _arrived(self, part: int, due: int, answer: list[Tensor]) -> _SentGradient:
        device = self.parts[part].shared.device
        future: Future[tuple[Tensor, Tensor]] = Future(devices=[device] if device.type == "cuda" else None)
        future.set_result((answer[0].to(device), answer[1].to(device)))
        return _SentGradient(self.parts[part], due, future)

    def _owner(self) -> object:
        # On a node of several ranks only the first has a job that keeps anything.
        own = self.job.job if isinstance(self.job, NodeJob) else self.job
        return self._reduce if self._reduce is not None else own

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_pickling(self, "what it communicates by")

    def close(self) -> None:
        """Wait for exchanges under way, and end the job's thread if nothing else uses it. Closing the job ends it
        too."""
        self._thread.close()


def _check(job: AnyJob | None, reduce: Reduce | None, *, every: int, parts: int, overlap: int, mix: float) -> None:
    if (job is None) == (reduce is None):
        raise UsageError("outer steps: need a job, or a reduction that does without: give one of them")
    if every < max(parts, 1):
        raise UsageError(f"every = {every}: must be 1 or more, and no less than parts = {parts}")
    if not 0 <= overlap < every:
        raise UsageError(f"overlap = {overlap}: must be 0 to {every - 1}, below every")
    if not 0 <= mix <= 1:
        raise UsageError(f"mix = {mix!r}: must be 0 to 1, the share that local values keep")


def _kept_part(part: OuterPart) -> dict[str, Any]:
    return {"shared": part.shared, "outer": part.outer.state_dict()}


def _restore_part(part: OuterPart, kept: dict[str, Any]) -> None:
    if kept["shared"].shape != part.shared.shape:
        have, here = len(kept["shared"]), len(part.shared)
        raise UsageError(f"state of Outer: part {part.number} has {have} values, the model's has {here}: {OTHER}")
    part.shared.copy_(kept["shared"])
    part.outer.load_state_dict(kept["outer"])
    part.compared = False


def _forget_nonfinite(optimizer: Optimizer) -> None:
    """Set NaN and infinity in an optimizer's state to 0: its next step would bring them to the parameters again."""
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor) and value.is_floating_point():
                value.nan_to_num_(0.0, 0.0, 0.0)


def _beside(piece: Tensor | None, part: OuterPart) -> Tensor | None:
    """On the part's device."""
    return None if piece is None else piece.to(part.shared.device)
