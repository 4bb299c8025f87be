# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ACP-SGD (arXiv 2306.08881) as a wrapper of any optimizer.

    def reduce(x, number):                               # sums in the switch, fixed point
        return job.reduce_with(Sum32Codec(workers=job.workers), x, number)

    optimizer = AcpSgd(model, torch.optim.SGD(model.parameters(), lr=0.1), reduce, rank=4, submit=thread.submit)
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss(model(inputs), labels).backward()           # factors are sent as gradients come
        optimizer.step()

All workers start with the same parameters and keep them equal, bit by bit on equal machines. A model inside
DistributedDataParallel needs the hook :func:`sumwire.training.ddp.local_hook`, so that DDP does not average too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.futures import Future
from torch.optim import Optimizer

from sumwire.checkpoint import OTHER, Content, Place, owner_of, place_of
from sumwire.codec.tensors import all_finite
from sumwire.errors import UsageError
from sumwire.lowrank.fusion import (
    MIN_COMPRESSION,
    THRESHOLD_BYTES,
    BufferSearch,
    Phase,
    Plan,
    candidates,
    make_plan,
    phase_of,
)
from sumwire.lowrank.matrices import HALVES, make_state
from sumwire.numeric import is_whole
from sumwire.training.comm_thread import queued, wait_for
from sumwire.training.ddp import Reduce
from sumwire.training.flat import check_covered
from sumwire.training.optim import GradientOptimizer, owner_state, restore_owner

# Runs calls one after the other, in the order given, and never in the middle of another.
Submit = Callable[[Callable[[], None]], Future[None]]

_ERROR: Final = "error"


def at_once(call: Callable[[], None]) -> Future[None]:
    """Make the call in the caller's thread: a `submit` without overlap."""
    call()
    future: Future[None] = Future()
    future.set_result(None)
    return future


@dataclass
class _Flight:
    """One group's buffer, and the mean and residual that came back for it."""

    number: int
    members: tuple[int, ...]
    x: Tensor
    ready: torch.cuda.Event | None
    future: Future[None] | None = None
    mean: Tensor | None = None
    residual: Tensor | None = None
    done: torch.cuda.Event | None = None


@dataclass
class _Step:
    """What has happened in the current step."""

    groups: tuple[tuple[int, ...], ...]
    arrivals: list[int]
    # By parameter, what it sends; None until its gradient is there.
    pieces: list[Tensor | None]
    flights: list[_Flight] = field(default_factory=list)
    # An error of the communication. It ends the step, and later groups are not sent.
    failure: Exception | None = None


class AcpSgd(GradientOptimizer):
    """ACP-SGD around another optimizer, for one worker.

    Step t, counted from 0, sends P factors if t is even and Q factors if it is odd. Gradients become P Q^T with the
    workers' mean of the sent factor, and error feedback keeps the rest for later steps. The equations are in
    :mod:`sumwire.lowrank.matrices`.

    ``model`` is a module, or its parameters in the same order on all workers; those that need gradients take part.
    ``reduce(flat tensor, number)`` returns the mean over the workers and a function for what was left out of this
    worker's contribution; the number tells groups and phases apart. A matrix is compressed if its factors are small
    enough (``min_compression``, 0 for always, see :func:`sumwire.lowrank.fusion.make_plan`). Its rank is ``rank``, or
    its smaller side if that is less. All other parameters are sent whole, in the same buffers. ``seed`` must be the
    same on all workers. ``threshold_bytes`` of uncompressed gradient share a buffer. None tries several sizes in the
    first steps, and takes the one that was fastest in the mean of the workers (:mod:`sumwire.lowrank.fusion`).
    ``error_feedback=False`` forgets what a step leaves out. ``reuse=False`` draws the basis anew in every step, instead
    of taking that of the last result. Both are for comparison.

    A gradient is compressed when ``accumulation`` backward passes have added to it, and a buffer is submitted when it
    is full, in a fixed order. ``accumulation=None`` waits for :meth:`step` instead, and allows any number of backward
    passes before it. ``submit(call)`` runs calls in order, on a thread of its own or at once.

    A parameter without gradient counts as zeros and gets a gradient. float16 and bfloat16 parameters are processed and
    sent in float32. State: the inner optimizer's, the step, P and Q, this worker's own errors, and the buffers' size
    once it is known.
    """

    def __init__(
        self,
        model: nn.Module | Iterable[Tensor],
        optimizer: Optimizer,
        reduce: Reduce,
        *,
        rank: int = 4,
        seed: int = 1,
        threshold_bytes: int | None = THRESHOLD_BYTES,
        min_compression: float = MIN_COMPRESSION,
        accumulation: int | None = 1,
        submit: Submit = at_once,
        error_feedback: bool = True,
        reuse: bool = True,
    ) -> None:
        if accumulation is not None and not is_whole(accumulation, 1):
            rule = "must be a whole number of backward passes, 1 or more, or None"
            raise UsageError(f"accumulation = {accumulation!r}: {rule}")
        if not is_whole(seed, 0):
            raise UsageError(f"seed = {seed!r}: must be a whole number, 0 or more")
        if not callable(reduce):
            raise UsageError(f"reduce = {reduce!r}: must be a function from a flat tensor and a number, as job.reduce")
        self.steps = 0
        parameters = _parameters(model)
        self._parameters = [p for p in parameters if p.requires_grad and p.numel()]
        _check_parameters(self._parameters, optimizer)
        self._plan_of = partial(
            _plan_of,
            [tuple(p.shape) for p in self._parameters],
            rank,
            min_compression,
            [4 if p.dtype in HALVES else p.element_size() for p in self._parameters],
        )
        self.plan: Plan = self._plan_of(THRESHOLD_BYTES if threshold_bytes is None else threshold_bytes)
        # While the search for the buffers' size goes on.
        self.search: BufferSearch | None = None
        if threshold_bytes is None:
            self._seek()
        self._reduction = reduce
        self._submit = submit
        self._accumulation = accumulation
        self._sends_scaled = accumulation is not None
        # What has scaled the gradients of the latest step, and the scale of the errors.
        self._scaler: GradScaler | None = None
        self._scale = 1.0
        self._seed = seed
        self.states = [
            make_state(item, p, seed=seed, number=number, error_feedback=error_feedback, reuse=reuse)
            for number, (item, p) in enumerate(zip(self.plan.items, self._parameters, strict=True))
        ]
        super().__init__(optimizer)
        self._handles = [
            p.register_post_accumulate_grad_hook(partial(self._arrived, number))  # type: ignore[no-untyped-call]
            for number, p in enumerate(self._parameters)
        ]
        self._now = self._begin()

    @property
    def phase(self) -> Phase:
        """The factor that the current step sends."""
        return phase_of(self.steps)

    @property
    def seeking(self) -> bool:
        """Whether the search for the buffers' size goes on."""
        return self.search is not None

    def synchronize(self) -> None:
        """Replace the gradients by the workers' synchronised ones; ends the step that the backward pass began.

        To clip gradients, call this, clip, then call ``optimizer.inner.step()``. To skip an update, call only this.

        If some worker's factors have NaN or infinity, the gradients of those parameters become NaN on all workers, and
        the state stays that before the step: errors, P, Q, and which factor's turn it is. Raises the reduction's own
        errors. After an error the state is that before the step and gradients are undefined: the workers may repeat the
        step together.
        """
        try:
            with self._plain():
                for number in reversed(range(len(self._parameters))):
                    if self._now.pieces[number] is None:
                        self._take(number)
                if self._finish():
                    chosen = self._agreed()
                    for state in self.states:
                        state.commit()
                    self._proceed(chosen)
                elif self.search is not None:
                    self.search.repeated()
        except Exception:
            if self.search is not None:
                self.search.repeated()
            # Not after Ctrl-C, which is to end this wait.
            self._settle()
            raise
        finally:
            self._now = self._begin()

    def _seek(self) -> None:
        """Begin the search for the buffers' size, unless all sizes make the same buffers."""
        search = BufferSearch(candidates(self._plan_of, self.plan.dense_bytes))
        self.plan = search.plan
        self.search = search if search.steps else None

    def _agreed(self) -> Plan | None:
        """The plan that the workers choose together, in the last step of the search; else None."""
        search = self.search
        if search is None or not search.last:
            return None
        own = torch.tensor(search.slower(self.phase), dtype=torch.float32, device=self._parameters[0].device)
        # No group has this number.
        flight = _Flight(2 * len(self._now.groups) + self.phase, (), own, queued(own.device))
        self._now.flights.append(flight)
        flight.future = self._submit(partial(self._carry, self._now, flight))
        wait_for(flight.future)
        if self._now.failure is not None:
            raise self._now.failure
        assert flight.mean is not None
        _await(flight.done, own)
        return search.chosen(flight.mean.tolist())

    def _proceed(self, chosen: Plan | None) -> None:
        """The step is made: go on to the next one, with the plan that was chosen or that the search tries next."""
        if chosen is not None:
            self.plan, self.search = chosen, None
        elif self.search is not None:
            self.search.made(self.phase)
            self.plan = self.search.plan
        self.steps += 1

    def close(self) -> None:
        """Wait for what was submitted, then remove the hooks from the parameters."""
        self._settle()
        for handle in self._handles:
            handle.remove()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raise an error after construction, because the buffers are laid out once."""
        if hasattr(self, "_now"):
            raise UsageError("add_param_group: make a new AcpSgd, its buffers have a fixed layout")
        super().add_param_group(param_group)

    def place(self) -> Place:
        return place_of(owner_of(self._reduction))

    def kept(self) -> Content:
        """Return the states of inner optimizer and reduction, the step, P, Q and this worker's own errors."""
        tensors = [state.state() for state in self.states]
        factors = [{name: one for name, one in state.items() if name != _ERROR} for state in tensors]
        rest = {**super().kept().rest, "steps": self.steps, "seed": self._seed, "factors": factors}
        if self.search is None:
            rest["threshold_bytes"] = self.plan.threshold_bytes
        errors = {str(number): state[_ERROR] for number, state in enumerate(tensors)}
        return Content.joined({"optimizer": Content(errors, rest), **owner_state(self._reduction)})

    def restore(self, content: Content, /) -> None:
        """Continue from a state. All workers do so at the same step.

        Raises UsageError in the middle of a step, or for a state of other parameters, rank, seed or min_compression.
        """
        if any(piece is not None for piece in self._now.pieces):
            raise UsageError(f"load_state_dict in the middle of step {self.steps}: must come before its backward pass")
        own = content.part("optimizer", self.kind())
        factors, seed = own.rest["factors"], own.rest["seed"]
        if len(factors) != len(self.states):
            raise UsageError(f"state: {len(factors)} parameters, here {len(self.states)}: {OTHER}")
        if seed != self._seed:
            raise UsageError(f"state: seed = {seed}: must be {self._seed}: make AcpSgd with the seed of the state")
        for number, (state, tensors) in enumerate(zip(self.states, factors, strict=True)):
            state.load({**tensors, _ERROR: own.residuals[str(number)]}, f"state of parameter {number}")
        super().restore(own)
        restore_owner(self._reduction, content, self.kind())
        self.steps = own.rest["steps"]
        if self.search is not None and "threshold_bytes" in own.rest:
            self.plan, self.search = self._plan_of(own.rest["threshold_bytes"]), None
        elif self.search is not None:
            self._seek()
        self._now = self._begin()

    def _begin(self) -> _Step:
        count = len(self._parameters)
        return _Step(self.plan.groups[self.phase], [0] * count, [None] * count)

    @contextlib.contextmanager
    def _plain(self) -> Iterator[None]:
        """Without gradients and autocast: products have the factors' own precision."""
        with torch.no_grad(), torch.autocast(self._parameters[0].device.type, enabled=False):
            yield

    def _arrived(self, number: int, parameter: Tensor) -> None:
        """Hook after a backward pass has added to the parameter's gradient."""
        if self._accumulation is None:
            return
        now = self._now
        now.arrivals[number] += 1
        if now.arrivals[number] == self._accumulation:
            with self._plain():
                self._take(number)
        elif now.arrivals[number] > self._accumulation:
            rule = (
                "a gradient is sent once a step: set accumulation, or None, and call step() or synchronize() after it"
            )
            raise UsageError(
                f"parameter {number}: {now.arrivals[number]} backward passes in step {self.steps}, with "
                f"accumulation = {self._accumulation}: {rule}"
            )

    def _take(self, number: int) -> None:
        """Compress a gradient, and send the groups that it completes."""
        if self._scaler is not None and all(piece is None for piece in self._now.pieces):
            self._follow_scale(self._scaler)
        gradient = self._parameters[number].grad
        if gradient is not None and gradient.layout != torch.strided:
            raise UsageError(f"gradient of parameter {number} of layout {gradient.layout}: must be dense")
        self._now.pieces[number] = self.states[number].compress(gradient, self.steps)
        self._launch()

    def _follow_scale(self, scaler: GradScaler) -> None:
        scale = scaler.get_scale()
        if scale != self._scale:
            for state in self.states:
                state.rescale(scale / self._scale)
            self._scale = scale

    def _synchronize_scaled(self, scaler: GradScaler) -> bool:
        if self._sends_scaled and self._scaler is not scaler:
            self._scaler, self._scale = scaler, scaler.get_scale()
        return super()._synchronize_scaled(scaler)

    def _launch(self) -> None:
        """Submit the groups that are full, in their order: one that is not full stops those after it."""
        now = self._now
        while len(now.flights) < len(now.groups):
            members = now.groups[len(now.flights)]
            pieces = [now.pieces[member] for member in members]
            if any(piece is None for piece in pieces):
                return
            x = _joined(cast(list[Tensor], pieces))
            flight = _Flight(2 * len(now.flights) + self.phase, members, x, queued(x.device))
            now.flights.append(flight)
            flight.future = self._submit(partial(self._carry, now, flight))

    def _carry(self, now: _Step, flight: _Flight) -> None:
        """Reduce one group; this is the submitted call.

        An error is kept for `synchronize`. Raised here, it would come out of backward() if there is no thread.
        """
        if now.failure is not None:
            return
        try:
            _await(flight.ready, flight.x)
            mean, residual_of = self._reduction(flight.x, flight.number)
            residual = residual_of()
            _check_result("mean", mean, flight.x)
            _check_result("residual", residual, flight.x)
            flight.mean, flight.residual, flight.done = mean, residual, queued(mean.device)
        except Exception as error:  # noqa: BLE001 - raised again by synchronize, whatever it is
            now.failure = error

    def _finish(self) -> bool:
        """Wait for the groups in their order, and restore each while later ones are still communicated.

        Returns whether all means are finite."""
        finite = True
        for flight in self._now.flights:
            assert flight.future is not None
            wait_for(flight.future)
            if self._now.failure is not None:
                raise self._now.failure
            assert flight.mean is not None and flight.residual is not None
            _await(flight.done, flight.x)
            good = all_finite(flight.mean)
            self._restore(flight.members, flight.mean, flight.residual, good)
            finite = finite and good
        return finite

    def _restore(self, members: tuple[int, ...], mean: Tensor, residual: Tensor, finite: bool) -> None:
        """Write the synchronised gradients of a group, whose mean is all finite or not."""
        sizes = [self.plan.items[member].sent(self.phase) for member in members]
        for member, piece, left in zip(members, torch.split(mean, sizes), torch.split(residual, sizes), strict=True):
            parameter = self._parameters[member]
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            if finite or all_finite(piece):
                self.states[member].restore(piece, left, parameter.grad)
            else:
                parameter.grad.fill_(torch.nan)

    def _settle(self) -> None:
        """Wait for all submitted calls, so that none of an abandoned step comes later."""
        for flight in self._now.flights:
            if flight.future is not None and not flight.future.done():
                wait_for(flight.future)


def _plan_of(
    shapes: list[tuple[int, ...]], rank: int, min_compression: float, value_bytes: list[int], threshold_bytes: int
) -> Plan:
    """Return the plan of a threshold; all else stands."""
    return make_plan(
        shapes, rank, threshold_bytes=threshold_bytes, min_compression=min_compression, value_bytes=value_bytes
    )


def _parameters(model: nn.Module | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(model, nn.Module):
        return list(model.parameters())
    if not isinstance(model, Iterable):
        raise UsageError(f"model = {model!r}: must be a module, or its parameters")
    return list(model)


def _check_parameters(parameters: list[Tensor], optimizer: Optimizer) -> None:
    for number, parameter in enumerate(parameters):
        if parameter.dtype not in (torch.float32, torch.float64, *HALVES):
            raise UsageError(f"parameter {number} of {parameter.dtype}: must be a real floating-point one")
    devices = {parameter.device for parameter in parameters}
    if len(devices) > 1:
        raise UsageError(f"parameters on {sorted(map(str, devices))}: must be on one device")
    known = {id(parameter) for parameter in parameters}
    if len(known) != len(parameters):
        raise UsageError("parameters: one is there twice: each must be named once")
    if parameters:
        check_covered(parameters, optimizer)


def _joined(pieces: list[Tensor]) -> Tensor:
    """Return the pieces as one new flat tensor of their widest dtype. The reduction may change it."""
    dtype = torch.float64 if any(piece.dtype == torch.float64 for piece in pieces) else torch.float32
    return torch.cat([piece.to(dtype) for piece in pieces])


def _check_result(name: str, result: Tensor, x: Tensor) -> None:
    if result.shape != x.shape:
        raise UsageError(
            f"reduce: {name} of shape {tuple(result.shape)}: must be {tuple(x.shape)}, as what it was given"
        )


def _await(event: torch.cuda.Event | None, tensor: Tensor) -> None:
    """Make this thread's stream wait for that point."""
    if event is not None:
        torch.cuda.current_stream(tensor.device).wait_event(event)
