# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's buckets: their grouping after a restart, and the residuals of a step's buckets.

DDP groups parameters into buckets anew after the first iteration of every process. A process that continues from a
checkpoint would therefore reduce its first step in other buckets than the previous process, and compression that
depends on a bucket's values together (norms, rotations, random numbers) would give other bits. :class:`Buckets`
remembers the grouping of the latest step. A restored one puts the gradients of its first step into the buckets of the
checkpoint; from the second step on DDP makes the same ones again.

:class:`StepResiduals` keeps the new residuals of all buckets of a step, or of none. The optimizer skips a step whose
    result
has NaN or infinity (torch.amp.GradScaler). So its residuals must be those from before the step, also of buckets that
were finite. New residuals are staged until the last bucket has its result.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from sumwire.checkpoint import Content, Shapes, check_shapes
from sumwire.codec.feedback import ParameterFeedback
from sumwire.errors import UsageError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket
else:
    from torch.distributed import GradBucket


# (parameter, number of values), in a bucket's order.
Parts = Sequence[tuple[Hashable, int]]


class StepResiduals:
    """The residuals of one step. Any thread may stage or drop. ``former``: the step before, which is settled first; it
    is dropped if its last bucket has not come."""

    def __init__(self, feedback: ParameterFeedback, former: StepResiduals | None) -> None:
        if former is not None:
            former.abandon()
        self._feedback = feedback
        self._former = former
        self._buckets = 0
        self._complete = False
        self._staged: list[tuple[Parts, Tensor]] = []
        self._ended = 0
        self._dropped = False
        self._error: Exception | None = None
        self._settled = threading.Event()
        self._lock = threading.Lock()

    @property
    def dropped(self) -> bool:
        """Whether the step's residuals are not kept."""
        return self._dropped

    @property
    def settled(self) -> bool:
        """Whether the step's residuals are kept or dropped."""
        return self._settled.is_set()

    def hand_over(self, *, last: bool) -> None:
        """Count a bucket whose residual will be staged. ``last``: the step has no further bucket."""
        with self._lock:
            self._buckets += 1
            self._complete = last

    def await_former(self) -> None:
        """Wait until the residuals of the step before are kept or dropped. Raises an error that occurred while
        computing them."""
        former = self._former
        if former is not None:
            former.wait()
            self._former = None

    def wait(self) -> None:
        """Wait until this step's residuals are kept or dropped. Raises an error that occurred while computing them."""
        self._settled.wait()
        if self._error is not None:
            raise self._error

    def stage(self, parts: Parts, residual: Tensor) -> None:
        """Take a bucket's new residual. When the last bucket's has come, all of them replace the parameters'
        residuals."""
        with self._lock:
            if self._dropped:
                return
            self._staged.append((parts, residual))
            self._ended += 1
            if self._complete and self._ended == self._buckets:
                for staged in self._staged:
                    self._feedback.store(*staged)
                self._staged.clear()
                self._settled.set()

    def drop(self, error: Exception | None = None) -> None:
        """Keep none of the step's residuals. ``error``: what `wait` raises."""
        with self._lock:
            self._dropped = True
            self._error = self._error or error
            self._staged.clear()
            self._settled.set()

    def abandon(self) -> None:
        """Drop a step whose last bucket has not arrived; otherwise do nothing."""
        if not self._complete:
            self.drop()


Model = nn.Module | Iterable[Tensor]
# Of a bucket, and the numbers of its parameters.
Submit = Callable[[GradBucket, list[int]], Future[Tensor]]
# Numbers of the parameters in each bucket of a step, in order.
Grouping = list[list[int]]


class Parameters:
    """Numbers and names of parameters.

    With a model, or its parameters in order, a parameter's number is its position among those that need gradients, so
    another process has the same numbers. Without a model, numbers are given in order of first appearance.
    """

    def __init__(self, model: Model | None = None) -> None:
        named = [] if model is None else _named(model)
        self.known = model is not None
        # Kept so that no id can become that of another tensor.
        self.all = [parameter for _, parameter in named]
        self._names = [name for name, _ in named]
        self._numbers = {id(parameter): number for number, parameter in enumerate(self.all)}

    @property
    def shapes(self) -> Shapes:
        """Return (name, shape) of every parameter, by number. Only possible with a model."""
        return [(name, tuple(p.shape)) for name, p in zip(self._names, self.all, strict=True)]

    def has(self, parameter: Tensor) -> bool:
        """Return whether the parameter has a number."""
        return id(parameter) in self._numbers

    def number(self, parameter: Tensor) -> int:
        """Return a parameter's number. Raises UsageError for one that does not belong to the model."""
        if id(parameter) not in self._numbers:
            if self.known:
                raise UsageError(
                    f"parameter of shape {tuple(parameter.shape)} is not one of the model's: give the model that "
                    "DistributedDataParallel has"
                )
            self._numbers[id(parameter)] = len(self.all)
            self.all.append(parameter)
        return self._numbers[id(parameter)]

    def numbers(self, bucket: GradBucket) -> list[int]:
        """Return the numbers of a bucket's parameters, in its order."""
        return [self.number(parameter) for parameter in bucket.parameters()]

    def check_dense(self, bucket: GradBucket) -> None:
        """Raise UsageError for a bucket with a sparse gradient."""
        if bucket.buffer().layout == torch.strided:
            return
        # DDP gives such a parameter a bucket for itself.
        named = [f"{self._name(parameter)}of shape {tuple(parameter.shape)}" for parameter in bucket.parameters()]
        raise UsageError(
            f"sparse gradient of parameter {', '.join(named)}: must be dense: make the module with sparse=False, as "
            "torch.nn.Embedding(..., sparse=False)"
        )

    def _name(self, parameter: Tensor) -> str:
        """In quotes, with a space; "" if it is not known."""
        number = self._numbers.get(id(parameter)) if self.known else None
        return "" if number is None else f"{self._names[number]!r} "

    def places_of(self, saved: Shapes, where: str) -> list[int]:
        """Return the numbers of saved parameters. Raises UsageError if one does not exist here, or has another
        shape."""
        check_shapes(where, saved, self.shapes)
        return [self._names.index(name) for name, _ in saved]


def _named(model: Model) -> list[tuple[str, Tensor]]:
    if not isinstance(model, nn.Module):
        return [(str(number), p) for number, p in enumerate(p for p in model if p.requires_grad)]
    plain = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
    # A compiled module has its parameters one level down.
    return [(name.replace("_orig_mod.", ""), p) for name, p in plain.named_parameters() if p.requires_grad]


@dataclass(frozen=True)
class Bucket:
    """Flat gradients of some parameters, with the interface of DDP's buckets."""

    number: int
    last: bool
    flat: Tensor
    members: tuple[Tensor, ...]

    @classmethod
    def of(cls, bucket: GradBucket) -> Bucket:
        """Return a copy of DDP's bucket, which is invalid after the hook has returned, while its buffer is not."""
        return cls(bucket.index(), bucket.is_last(), bucket.buffer(), tuple(bucket.parameters()))

    def buffer(self) -> Tensor:
        return self.flat

    def index(self) -> int:
        return self.number

    def is_last(self) -> bool:
        return self.last

    def parameters(self) -> list[Tensor]:
        return list(self.members)

    def gradients(self) -> list[Tensor]:
        """Return the gradients as views of the buffer."""
        pieces = torch.split(self.flat, [p.numel() for p in self.members])
        return [piece.view(p.shape) for piece, p in zip(pieces, self.members, strict=True)]


class Buckets:
    """Passes DDP's buckets on. In the first step after a restored state, it passes the buckets of the saved grouping
    instead."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._now: Grouping = []
        # Of the latest complete step.
        self._latest: Grouping = []
        self._wanted: Grouping = []
        self._regrouping: _Regrouping | None = None

    def submit(self, bucket: GradBucket, numbers: list[int], submit: Submit) -> Future[Tensor]:
        """Return a future of the bucket's buffer, filled with the result of ``submit`` for it, or for the saved buckets
        that have its gradients. ``numbers``: those of its parameters."""
        if bucket.index() == 0:
            # The first of a step. A step that was not completed is forgotten.
            self._now = []
            self._regrouping = (
                _Regrouping(self._parameters, self._wanted, partial(self._note, submit)) if self._wanted else None
            )
        regrouping = self._regrouping
        future = self._note(submit, bucket, numbers) if regrouping is None else regrouping.take(bucket, numbers)
        if bucket.is_last():
            self._latest, self._now = self._now, []
            self._wanted, self._regrouping = [], None
        return future

    def kept(self) -> Content:
        """Return the grouping of the latest step."""
        return Content(rest={"buckets": self._wanted or self._latest})

    def restore(self, content: Content, places: Sequence[int]) -> None:
        """Regroup the next step as saved. ``places`` maps the saved numbers of parameters to those here."""
        self._wanted = [[places[number] for number in group] for group in content.rest["buckets"]]

    def _note(self, submit: Submit, bucket: GradBucket, numbers: list[int]) -> Future[Tensor]:
        self._now.append(numbers)
        return submit(bucket, numbers)


@dataclass(eq=False)
class ModelSteps:
    """The steps of one model. ``latest``: the residuals of the latest step that has begun. ``next``: the index of the
    bucket that follows, 0 between steps."""

    buckets: Buckets
    latest: StepResiduals | None = None
    next: int = 0


class Models:
    """The models that share a hook's state. Each has its own steps: one backward pass may go through several models,
    whose buckets then alternate.

    DDP does not say which model a bucket is of. The first bucket of a step belongs to the model that has its
    parameters, or to a new model if none has. A later bucket belongs to the model whose next bucket it can be, and that
    model takes over its parameters. So a model that is wrapped again with one more parameter stays the same model.
    """

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        # By number of a parameter.
        self._of: dict[int, ModelSteps] = {}
        self.all = [ModelSteps(Buckets(parameters))]

    def of(self, bucket: GradBucket, numbers: list[int]) -> ModelSteps:
        """Return the model of a bucket. ``numbers``: those of its parameters. Raises UsageError if several models are
        possible."""
        index = bucket.index()
        model = self._of.get(numbers[0]) if numbers else None
        if model is None or (index and model.next != index):
            model = self._found(index, numbers)
            self._of.update(dict.fromkeys(numbers, model))
        model.next = 0 if bucket.is_last() else index + 1
        return model

    def _found(self, index: int, numbers: list[int]) -> ModelSteps:
        # A model that was given has all parameters.
        if self._parameters.known or not self._of:
            return self.all[0]
        due = [model for model in self.all if index and model.next == index]
        if len(due) == 1:
            return due[0]
        known = next((self._of[number] for number in numbers if number in self._of), None)
        if known is not None:
            return known
        if index and len(self.all) > 1:
            raise UsageError(
                f"bucket {index} of a backward pass through several models that share one DdpState: may be of any of "
                "them: give each its own, model.register_comm_hook(DdpState(job), ddp_hook)"
            )
        if index == 0:
            self.all.append(ModelSteps(Buckets(self._parameters)))
        return self.all[-1]


@dataclass(eq=False)
class _Open:
    """A bucket of DDP's, and the parameters whose results it still waits for."""

    buffer: Tensor
    waits: set[int]
    future: Future[Tensor]


class _Regrouping:
    """One step whose gradients are put into other buckets than DDP's.

    `take` is called by the backward pass, results come from the threads that reduce.
    """

    def __init__(self, parameters: Parameters, wanted: Grouping, submit: Submit) -> None:
        self._parameters = parameters
        self._groups = [list(group) for group in wanted]
        self._submit = submit
        self._sent = 0
        # By parameter: where its gradient is, and the bucket that it came in.
        self._arrived: dict[int, tuple[Tensor, _Open]] = {}
        # Guards the buckets that have no result yet.
        self._open: set[_Open] = set()
        self._lock = threading.Lock()

    def take(self, bucket: GradBucket, numbers: list[int]) -> Future[Tensor]:
        """Take a bucket of DDP's; its future is done when all its gradients are reduced."""
        buffer = bucket.buffer()
        open_ = _Open(buffer, set(numbers), Future(devices=[buffer.device] if buffer.is_cuda else None))
        with self._lock:
            self._open.add(open_)
        sizes = [p.numel() for p in bucket.parameters()]
        for number, piece in zip(numbers, torch.split(buffer, sizes), strict=True):
            self._arrived[number] = (piece, open_)
        if bucket.is_last():
            self._close()
        # Which bucket is the step's last one is known when all gradients are there.
        known = len(self._groups) if bucket.is_last() else len(self._groups) - 1
        while self._sent < known and all(number in self._arrived for number in self._groups[self._sent]):
            self._launch(self._groups[self._sent], last=self._sent == len(self._groups) - 1)
        return open_.future

    def _close(self) -> None:
        """All gradients are there: what the saved grouping does not have makes one more bucket, and it waits for no
        other."""
        groups = [[number for number in group if number in self._arrived] for group in self._groups]
        extra = [number for number in self._arrived if not any(number in group for group in groups)]
        sent = groups[: self._sent]
        self._groups = sent + [group for group in (*groups[self._sent :], extra) if group]

    def _launch(self, group: list[int], *, last: bool) -> None:
        members = tuple(self._parameters.all[number] for number in group)
        flat = torch.cat([self._arrived[number][0] for number in group])
        bucket = Bucket(self._sent, last, flat, members)
        self._sent += 1
        self._submit(cast(GradBucket, bucket), group).add_done_callback(lambda future: self._spread(group, future))

    def _spread(self, group: list[int], future: Future[Tensor]) -> None:
        """Put the result of a saved bucket where DDP's buckets want it."""
        involved = {self._arrived[number][1] for number in group}
        try:
            pieces = torch.split(future.value(), [self._arrived[number][0].numel() for number in group])
            for number, piece in zip(group, pieces, strict=True):
                self._arrived[number][0].copy_(piece)
        except Exception as error:  # noqa: BLE001 - any error goes to DDP's futures, or backward() would wait for ever
            failed = self._ended(lambda open_: open_ in involved)
            for open_ in failed:
                open_.future.set_exception(error)  # type: ignore[arg-type]
            return
        with self._lock:
            for open_ in involved:
                open_.waits.difference_update(group)
        for open_ in self._ended(lambda open_: open_ in involved and not open_.waits):
            open_.future.set_result(open_.buffer)

    def _ended(self, ends: Callable[[_Open], bool]) -> list[_Open]:
        """Return those of the open buckets that end now; they are not open afterwards."""
        with self._lock:
            found = [open_ for open_ in self._open if ends(open_)]
            self._open.difference_update(found)
        return found


class JoinCheck:
    """Refuses, for one hook, the form of DistributedDataParallel's join that no hook can honour.

    A rank that has joined contributes zeros, and torch's own reducer divides by the number of the other ranks. It tells
    hooks neither that there is a join nor how many have joined, so a hook divides by all.
    """

    def __init__(self) -> None:
        self._models: list[weakref.ref[DistributedDataParallel]] | None = None

    def check(self, parameter: Tensor) -> None:
        """Raise UsageError within ``model.join(divide_by_initial_world_size=False)``. ``parameter``: one of the
        model's."""
        if self._models is None:
            self._models = [weakref.ref(model) for model in _models_with(parameter)]
        for model in filter(None, (found() for found in self._models)):
            joins = getattr(model, "_join_config", None)
            if joins is not None and joins.enable and not getattr(model, "_divide_by_initial_world_size", True):
                raise UsageError(
                    "model.join(divide_by_initial_world_size=False): no hook learns which ranks have joined: leave the "
                    'option out, or, in place of the hook, call init_process_group("sumwire"), which honours it'
                )


def _models_with(parameter: Tensor) -> list[DistributedDataParallel]:
    """A bucket does not say which model it is of."""
    return [model for model in living_models() if any(one is parameter for one in model.parameters())]


def living_models() -> list[DistributedDataParallel]:
    """Return all DDP models of this process. It looks through all of Python's objects, which takes tens of
    milliseconds.

    It asks for what refers to the class, as each instance does. A list of all objects would hold, for a moment, those
    that other threads are still making: a tuple that is made of a generator then fails with SystemError.
    """
    kinds: list[type[DistributedDataParallel]] = [DistributedDataParallel]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return [found for found in gc.get_referrers(*kinds) if issubclass(type(found), DistributedDataParallel)]
