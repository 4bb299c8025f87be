# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizers that communicate. Marsit (Wu et al., DAC 2022, arXiv 2204.06787) wraps any optimizer:

    optimizer = sumwire.optim.Marsit(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), job)
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss(model(inputs), labels).backward()           # a plain model: no all-reduce of gradients
        optimizer.step()                                 # one bit per value up, one down

All workers start with the same parameters and keep them equal, bit by bit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Literal, NoReturn, SupportsIndex, TypeVar, cast, overload

import torch
import torch.distributed as dist
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from sumwire.checkpoint import OTHER, Content, Place, Saved, Shapes, check_shapes, owner_of, place_of, refuse_pickling
from sumwire.codec.sign import plus_minus
from sumwire.codec.tensors import all_finite
from sumwire.errors import NonFiniteError, UsageError
from sumwire.job.rules import NonFinite, refuse_unless, result_check
from sumwire.numeric import is_number, is_whole
from sumwire.training.adaptive_signs import AdaptiveSigns, divides_by_squares
from sumwire.training.flat import Exchanged, FlatParameters
from sumwire.training.global_step import GlobalStep, are_finite, expect_scaler, is_unscaled
from sumwire.training.reductions import Collective

_Loss = TypeVar("_Loss")
_REDUCTION: Final = "reduction"
_CALLS: Final = ("sign_merge", "mean", "all_finite")
Rule = Literal["adaptive", "published"]
RULES: Final[tuple[Rule, ...]] = ("adaptive", "published")
LEAD: Final = 3.0
"""Marsit's with the published rule. Chosen on the digits: docs/measurements.md."""


class Marsit(Saved, Optimizer):
    """One worker's optimizer. Round t, from 0, with x the parameters as one vector:

    1. the inner optimizer makes its local step on a copy: update = x - x', with its momentum or Adam moments;
    2. workers agree on a change G: in full precision every ``full_precision_every`` rounds, else steps x merged signs
       (+-1);
    3. x = x - G.

    ``rule="adaptive"``: a step for each tensor follows from the local updates, each worker carries what its own signs
    left out, and rounds of full precision come earlier where workers' updates differ
    (:mod:`sumwire.training.adaptive_signs`).

    ``rule="published"``, the paper's, with c = 0 before the first round: workers send the signs of lead x update + c,
    and keep c = update + c - G. A round of full precision applies the mean of update + c, after which c is 0. c is the
    part of this worker's update that G lacks, so x - mean(c) moves exactly as with the mean of the local updates. Two
    options belong to this rule only. ``global_lr`` is the step, in units of the parameters: a number, a function of the
    round, or None to follow the magnitude of the local updates (:mod:`sumwire.training.global_step`). It must be the
    same on all workers, and may be changed at any time. A warning is logged if c has outgrown it. ``lead``: the weight
    of the new update against c in the signs; 1 is as published, None is 3. A larger weight makes up for the delay that
    c causes, like a prediction, and does not change what is compensated.

    ``full_precision_every`` None never sends full precision; 1 always does, which is ordinary data-parallel training of
    local updates. ``collective`` is a :class:`sumwire.Job` with ops sign, sum32 and max32, or any :class:`Collective`.
    For a process group of torch.distributed, a ring of its ranks is used (:class:`sumwire.multihop.RingSigns`).

    If some worker's gradients have NaN or infinity, all workers' gradients become NaN, and the round and compensation
    stay. A GradScaler then skips the step. Without one the inner optimizer makes its own step, as it would alone. With
    ``nonfinite="raise"`` all workers' step raises NonFiniteError instead, and changes nothing.

    Parameters without a gradient take part with an update of 0, unless ``requires_grad`` was False when the optimizer
    was made. float16 and bfloat16 parameters get float32 master values, which the inner optimizer sees. Learning-rate
    schedulers take this optimizer or the inner one, which share their parameter groups. State: the inner optimizer's,
    the round, and this worker's own compensation, so every worker saves its own state dict. Memory beside the inner
    optimizer's: one value a parameter with the published rule, three with the adaptive one.
    """

    # GradScaler.step calls the optimizer whatever the own gradients are (sumwire.training.global_step).
    _step_supports_amp_scaling = True

    def __init__(
        self,
        optimizer: Optimizer,
        collective: Collective | dist.ProcessGroup,
        *,
        rule: Rule = "adaptive",
        global_lr: float | Callable[[int], float] | None = None,
        full_precision_every: int | None = 100,
        lead: float | None = None,
        nonfinite: NonFinite = "propagate",
    ) -> None:
        result_check(nonfinite)
        _check_rule(rule, global_lr=global_lr, lead=lead)
        if full_precision_every is not None and not is_whole(full_precision_every, 1):
            must = "must be a whole number of rounds, 1 or more, or None for never"
            raise UsageError(f"full_precision_every = {full_precision_every!r}: {must}")
        _check_inner(optimizer)
        self.inner = optimizer
        self.lead = LEAD if lead is None else lead
        self._pace = GlobalStep(global_lr)
        self.full_precision_every = full_precision_every
        self.round = 0
        self._collective = _carrier(collective)
        self._raises = nonfinite == "raise"
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self._exchanged = Exchanged(optimizer, self)
        self._flat = FlatParameters(self._exchanged.parameters)
        lengths = [p.numel() for p in self._flat.parameters]
        self._adaptive = AdaptiveSigns(lengths) if rule == "adaptive" else None
        self._kept: Tensor | None = None
        expect_scaler()

    @property
    def compensation(self) -> Tensor | None:
        """Return the compensation that this worker carries to the next round, one value per parameter value; None if
        there is none."""
        return self._kept if self._adaptive is None else self._adaptive.error

    @property
    def global_lr(self) -> float | Callable[[int], float] | None:
        """The step of a sign that was given; None for the rule."""
        return self._pace.given

    @global_lr.setter
    def global_lr(self, given: float | Callable[[int], float] | None) -> None:
        self._pace.given = given

    @property
    def full_precision_next(self) -> bool:
        """Whether the next step will send full precision."""
        if self._adaptive is not None:
            return self._adaptive.exact_next(self.full_precision_every)
        return self.full_precision_every is not None and self.round % self.full_precision_every == 0

    @overload
    def step(self, closure: None = None, *, grad_scaler: GradScaler | None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], _Loss], *, grad_scaler: GradScaler | None = None) -> _Loss: ...

    def step(self, closure: Callable[[], Any] | None = None, *, grad_scaler: GradScaler | None = None) -> Any:
        """Make one round. ``closure`` is evaluated once, before it. ``grad_scaler`` is given by GradScaler.step.

        Raises UsageError for a parameter that did not need gradients when this optimizer was made, because it is not
        exchanged. Raises NonFiniteError if finite gradients give a local update with NaN or infinity; the inner
        optimizer's state has then changed. Also raises the collective's errors.
        """
        self._exchanged.check()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            if grad_scaler is not None and not is_unscaled(grad_scaler, self):
                grad_scaler.unscale_(self)
            self._step(grad_scaler)
        return loss

    def _step(self, scaler: GradScaler | None) -> None:
        flat = self._flat
        finite = self._collective.all_finite(flat.finite_gradients())
        if self._raises:
            refuse_unless(finite)
        if not finite:
            flat.spoil_gradients()
        if scaler is not None and not are_finite(scaler, self):
            return
        x = flat.read()
        update = self._local_update(x)
        if not finite:
            flat.write(x.sub_(update))
        elif self._adaptive is None:
            self._make_round(x, update)
        else:
            self._make_adaptive_round(self._adaptive, x, update)

    def _make_adaptive_round(self, rule: AdaptiveSigns, x: Tensor, update: Tensor) -> None:
        """Steps 2 and 3. Others wait for this worker, so one whose update is not finite takes part with zeros."""
        finite = all_finite(update)
        scaled = divides_by_squares(self.inner)
        told = update if finite else torch.zeros_like(update)
        self._move(x, rule.exchange(told, self._collective, self.full_precision_every, scaled=scaled))
        if not finite:
            raise self._not_finite()

    def _make_round(self, x: Tensor, update: Tensor) -> None:
        """Steps 2 and 3 of the published rule, with parameters x and the local update. Both are overwritten."""
        self._pace.learn(update)
        c, signed = self._kept, update
        if c is not None and not self.full_precision_next:
            signed = torch.add(c, update, alpha=self.lead)
        g = update if c is None else update.add_(c)
        if self.full_precision_next:
            change, left = self._collective.mean(g).to(g.dtype), None
            self._check(change)
            self._move(x, change)
        else:
            # Others wait for this worker's signs, whatever its update is, and all move by the result.
            self._pace.agree(self.round, self._collective.mean)
            change = self._signs(signed)
            self._move(x, change)
            left = g.sub_(change)
            self._check(left)
            self._pace.watch(self.round, left)
        self._kept = left

    def _move(self, x: Tensor, change: Tensor) -> None:
        self._flat.write(x.sub_(change))
        self.round += 1

    def _check(self, update: Tensor) -> None:
        if not all_finite(update):
            raise self._not_finite()

    def _not_finite(self) -> NonFiniteError:
        return NonFiniteError(
            f"round {self.round}: finite gradients, and yet an update with NaN or infinity: "
            "lower the learning rate of the inner optimizer"
        )

    def _local_update(self, x: Tensor) -> Tensor:
        """Return x minus its value after the inner optimizer's step."""
        trial = x.clone()
        with self._flat.standing_in(trial):
            self.inner.step()
        return x - trial

    def _signs(self, values: Tensor) -> Tensor:
        """Return the merged signs of the values times the global step."""
        plus = self._collective.sign_merge(values >= 0)
        return plus_minus(plus, values.dtype).mul_(self._pace.of(self.round))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused after construction, because the flat vector is laid out only once."""
        if hasattr(self, "_flat"):
            raise UsageError("add_param_group: make a new Marsit, its vector has a fixed layout")
        super().add_param_group(param_group)

    def place(self) -> Place:
        return place_of(owner_of(self._collective))

    def kept(self) -> Content:
        """Return the compensation, the round, master values, the inner optimizer's state and the collective's."""
        adaptive = None if self._adaptive is None else self._adaptive.kept()
        rest = {
            **Inner(self.inner).kept().rest,
            "adaptive": None if adaptive is None else adaptive.rest,
            "round": self.round,
            "full_precision_every": self.full_precision_every,
            "global_lr": self._pace.kept(),
            "master": self._flat.master,
        }
        residuals = {"compensation": self._kept} if adaptive is None else adaptive.residuals
        return Content.joined({"optimizer": Content(residuals, rest), **owner_state(self._collective)})

    def restore(self, content: Content, /) -> None:
        """Continue from a state. A ``global_lr`` that is a function is not part of it; the optimizer keeps its own."""
        own = content.part("optimizer", self.kind())
        rest = own.rest
        if (rest["adaptive"] is None) != (self._adaptive is None):
            saved = RULES[rest["adaptive"] is None]
            raise UsageError(f"state of {self.kind()}: saved with rule {saved!r}: {OTHER}")
        # Optimizers cast their moments to the parameters' dtype, which is that of the master values.
        with self._flat.standing_in(self._flat.read()):
            Inner(self.inner).restore(own)
        # It has made new groups.
        self.param_groups = self.inner.param_groups
        restore_owner(self._collective, content, self.kind())
        self.round = rest["round"]
        self.full_precision_every = rest["full_precision_every"]
        self._pace.restore(rest["global_lr"])
        residuals = {name: self._own(residual) for name, residual in own.residuals.items()}
        if self._adaptive is None:
            self._kept = residuals["compensation"]
        else:
            self._adaptive.restore(residuals, rest["adaptive"])
        self._flat.master = self._own(rest["master"])

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_pickling(self, "what it communicates by")

    def _own(self, piece: Tensor | None) -> Tensor | None:
        return None if piece is None else piece.to(self._flat.parameters[0].device, self._flat.dtype)


def _check_rule(rule: object, **published: object) -> None:
    """Raise UsageError for a rule that there is not, and for options that are of the published one alone."""
    if rule not in RULES:
        raise UsageError(f"rule = {rule!r}: must be one of {', '.join(map(repr, RULES))}")
    for name, value in published.items():
        if rule == "adaptive" and value is not None:
            must = "must be left out with the adaptive rule, or go with rule='published'"
            raise UsageError(f"{name} = {value!r}: {must}")
    lead = published["lead"]
    if lead is not None and (not is_number(lead) or lead < 1):
        raise UsageError(f"lead = {lead!r}: must be a finite number from 1 on; 1 is as published")


def _check_inner(optimizer: object) -> None:
    check_closure(optimizer)
    if isinstance(optimizer, Marsit | GradientOptimizer):
        rule = "must be one that does not communicate itself: give the optimizer that is within it"
        raise UsageError(f"optimizer = {type(optimizer).__name__}: {rule}")


def check_closure(optimizer: object) -> None:
    """Raise UsageError unless the optimizer can make a step from the existing gradients, without a closure."""
    if not isinstance(optimizer, Optimizer):
        raise UsageError(f"optimizer = {type(optimizer).__name__}: must be an optimizer of torch, as torch.optim.SGD")
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        rule = "must be one whose step needs no closure, as that would evaluate gradients of its own: use SGD or AdamW"
        raise UsageError(f"optimizer = {type(optimizer).__name__}: {rule}")


def _carrier(collective: Collective | dist.ProcessGroup) -> Collective:
    if not (dist.is_available() and isinstance(collective, dist.ProcessGroup)):
        if not all(callable(getattr(collective, call, None)) for call in _CALLS):
            rule = f"must be a job, a process group, or have the calls {', '.join(_CALLS)}"
            raise UsageError(f"collective = {type(collective).__name__}: {rule}")
        return cast(Collective, collective)
    from sumwire.multihop import RingSigns

    return RingSigns(collective)


class GradientOptimizer(Saved, Optimizer):
    """Wraps an optimizer: replaces gradients by their aggregate, then lets the inner optimizer make its step.

    Subclasses aggregate in :meth:`synchronize`. Parameter groups are the inner optimizer's own. With a GradScaler all
    workers make the step only if the aggregate is finite. The state is the inner optimizer's; subclasses add theirs.
    """

    # GradScaler.step calls the optimizer whatever the own gradients are (sumwire.training.global_step).
    _step_supports_amp_scaling = True
    # Whether gradients are sent before the step, when they are still scaled.
    _sends_scaled = False

    def __init__(self, optimizer: Optimizer) -> None:
        _check_inner(optimizer)
        self.inner = optimizer
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self._exchanged = Exchanged(optimizer, self)
        expect_scaler()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused after construction: only the parameters of that time are exchanged."""
        if hasattr(self, "_exchanged"):
            raise UsageError(
                f"add_param_group: make a new {type(self).__name__}, it exchanges the parameters that it was made with"
            )
        super().add_param_group(param_group)

    def kept(self) -> Content:
        return Inner(self.inner).kept()

    def restore(self, content: Content, /) -> None:
        Inner(self.inner).restore(content)
        # It has made new groups.
        self.param_groups = self.inner.param_groups

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_pickling(self, "what it communicates by")

    def synchronize(self) -> None:
        """Replace the parameters' gradients by their aggregate over the workers."""
        raise NotImplementedError

    @overload
    def step(self, closure: None = None, *, grad_scaler: GradScaler | None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], _Loss], *, grad_scaler: GradScaler | None = None) -> _Loss: ...

    def step(self, closure: Callable[[], Any] | None = None, *, grad_scaler: GradScaler | None = None) -> Any:
        """:meth:`synchronize`, then the inner optimizer's step. ``closure`` is evaluated once, before.

        ``grad_scaler`` is given by GradScaler.step. Raises UsageError for a parameter that did not need gradients when
        this optimizer was made, because it is not exchanged.
        """
        self._exchanged.check()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if grad_scaler is None:
            self.synchronize()
            self.inner.step()
        elif self._synchronize_scaled(grad_scaler):
            self.inner.step()
        return loss

    def _synchronize_scaled(self, scaler: GradScaler) -> bool:
        """Aggregate the gradients and unscale them; return whether they are finite, on all workers alike."""
        unscaled = is_unscaled(scaler, self)
        if unscaled and self._sends_scaled:
            rule = "its gradients are sent in the backward pass: call synchronize(), then unscale_ and step with .inner"
            raise UsageError(f"GradScaler.unscale_ before the step of {type(self).__name__}: {rule}")
        if not unscaled and not self._sends_scaled:
            scaler.unscale_(self)
        self.synchronize()
        if self._sends_scaled:
            scaler.unscale_(self)
        return are_finite(scaler, self)


class GradientSync(GradientOptimizer):
    """Replaces gradients by their aggregate before the inner optimizer's step, for models without
    DistributedDataParallel.

    ``reduce(flat gradients, 0)`` returns the aggregate and a function for this worker's residual, which is added to the
    next gradients unless ``error_feedback`` is False. A parameter without gradient counts as zeros and gets a gradient.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        reduce: Callable[[Tensor, int], tuple[Tensor, Callable[[], Tensor]]],
        *,
        error_feedback: bool = True,
    ) -> None:
        self._reduction = reduce
        self._error_feedback = error_feedback
        self._flat: FlatParameters | None = None
        self.residual: Tensor | None = None
        super().__init__(optimizer)
        self._flat = FlatParameters(self._exchanged.parameters)

    @torch.no_grad()
    def synchronize(self) -> None:
        """Aggregate all gradients as one flat tensor."""
        assert self._flat is not None
        parameters = self._flat.parameters
        pieces = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        x = torch.cat([piece.reshape(-1).to(torch.float32) for piece in pieces])
        if self.residual is not None:
            x += self.residual
        result, residual = self._reduction(x, 0)
        if self._error_feedback and all_finite(result):
            self.residual = residual()
        for p, piece in zip(parameters, torch.split(result, [p.numel() for p in parameters]), strict=True):
            p.grad = piece.view(p.shape).to(p.dtype, copy=True)

    def place(self) -> Place:
        return place_of(owner_of(self._reduction))

    def kept(self) -> Content:
        """Return the inner optimizer's state, this worker's residual and the reduction's state."""
        own = Content({"residual": self.residual}, super().kept().rest)
        return Content.joined({"optimizer": own, **owner_state(self._reduction)})

    def restore(self, content: Content, /) -> None:
        own = content.part("optimizer", self.kind())
        super().restore(own)
        restore_owner(self._reduction, content, self.kind())
        residual = own.residuals["residual"]
        assert self._flat is not None
        self.residual = None if residual is None else residual.to(self._flat.parameters[0].device)


class Inner:
    """The inner optimizer as a part of a saved state: its state, and the shapes of its parameters."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def kept(self) -> Content:
        """See :class:`sumwire.checkpoint.Kept`."""
        return Content(rest={"inner": self._optimizer.state_dict(), "parameters": self._shapes()})

    def restore(self, content: Content, /) -> None:
        """See :class:`sumwire.checkpoint.Kept`. Raises UsageError for the state of other parameters."""
        saved, here = content.rest["parameters"], self._shapes()
        check_shapes("state of the optimizer", saved, here)
        if len(saved) < len(here):
            raise UsageError(f"state of the optimizer: has {len(saved)} parameters, the model {len(here)}: {OTHER}")
        self._optimizer.load_state_dict(content.rest["inner"])

    def _shapes(self) -> Shapes:
        parameters = (p for group in self._optimizer.param_groups for p in group["params"])
        return [(str(number), tuple(p.shape)) for number, p in enumerate(parameters)]


def owner_state(call: object) -> dict[str, Content]:
    """Return the state of the object behind a reduction or collective, under the name "reduction"; empty if it has
    none."""
    owner = owner_of(call)
    return {} if owner is None else {_REDUCTION: owner.kept()}


def restore_owner(call: object, content: Content, kind: str) -> None:
    """Restore what `owner_state` returned. Raises UsageError if the object needs a state and none was saved."""
    owner = owner_of(call)
    if owner is not None:
        owner.restore(content.part(_REDUCTION, kind))
