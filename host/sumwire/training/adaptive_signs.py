# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marsit's rounds with the rule "adaptive": each worker carries what its *own* sign left out.

With the published rule a worker carries what the *merged* sign left out of its update. This includes how its updates
differ from the others'. That difference accumulates round after round, until the signs show nothing else. Here, with u
the local update:

    r = u - weight x shift            shift: how this worker's updates differed from the mean, at the last exact round
    v = r + error                     the worker sends the sign of v, and all apply step x merged signs
    error = v - step x sign(v)        within BOUND steps

A merged sign is one worker's, drawn at random, so its mean is that of the workers' signs. Shifts add up to zero over
the workers. So they do not change the mean, and they remove the differences between signs that unequal shards cause. In
an exact round workers send their mean update since the last one. All apply its mean, and each keeps the rest as its
shift.

Workers agree on the rest 1, 2, 4, 8, 16, 32, 48 ... rounds after an exact one, by exact means of a few numbers:

- the step of each parameter tensor: STEP times the root mean square of r, STEP_SCALED times for the optimizers below;
- the weight of each tensor's shift, by least squares: near 0 where only chance told workers apart;
- the drift: the share of r that is a lasting difference between workers. If it is above DRIFT, the next round is exact;
- the scale, for optimizers that divide by the root of the gradient's mean square, as Adam does. One worker's gradient
  is noisier than the mean gradient, so it divides by more: the mean of n updates is up to sqrt(n) times too short.

Drift and scale are those of some values, drawn once. The constants were chosen on the digits, with another split of the
images than docs/measurements.md reports, and on text, with other topics held out and other seeds. A larger step follows
updates that vary sooner, but it is noise that raises gradients. Where gradients raise the step, that goes on: with 2 a
training of a network with batch normalisation diverged. Adam and its kin divide by the gradients' size, so with them it
does not: a transformer had 3 to 5 % more bits a character than by S-SGD with 1.5, and as many with 3 and with 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.optim import Optimizer

from sumwire.checkpoint import Content
from sumwire.codec.sign import plus_minus
from sumwire.training.reductions import Collective

STEP: Final = 1.5
STEP_SCALED: Final = 3.0
BOUND: Final = 2.0
DRIFT: Final = 0.5
# Minibatches' noise looks like drift at first: the share that it may have after so many rounds, over their number.
CHANCE: Final = 16.0
WEIGHT_MOST: Final = 4.0
SCALE_MOST: Final = 4.0
KEPT: Final = 0.95
APART: Final = 16
SAMPLE_MOST: Final = 512
# State that such optimizers of torch have for a parameter: Adam and its kin, RMSprop, Adagrad, Adamax, Adafactor.
_SQUARES: Final = frozenset({"exp_avg_sq", "square_avg", "sum", "exp_inf", "variance", "row_var"})


def divides_by_squares(optimizer: Optimizer) -> bool:
    """Return whether the optimizer divides its steps by the gradient's root mean square, judging by its state after a
    step."""
    return any(not _SQUARES.isdisjoint(state) for state in optimizer.state.values() if isinstance(state, dict))


class AdaptiveSigns:
    """One worker's part in the rule. ``lengths``: the number of values of each parameter tensor in a flat update."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = list(lengths)
        self._counts = torch.tensor(self._lengths, device="cpu")
        total = sum(lengths)
        drawn = torch.Generator().manual_seed(total)
        few = min(SAMPLE_MOST, -(-total // APART))
        self._sample = torch.randint(max(total, 1), (few,), generator=drawn, device="cpu")
        self._sampled = torch.bucketize(self._sample, self._counts.cumsum(0), right=True)
        self.error: Tensor | None = None
        self._shift: Tensor | None = None
        self._total: Tensor | None = None
        # Of each tensor: mean squares of updates, and means of update times shift, the latest rounds counting most.
        self._squares: Tensor | None = None
        self._products = torch.zeros(len(self._lengths), dtype=torch.float64, device="cpu")
        # What workers have agreed on.
        self._step = torch.zeros_like(self._products)
        self._weight = torch.ones_like(self._products)
        self._scale = 1.0
        # Whether an exact round is due: the first one, or after a drift.
        self._due = True
        # Rounds of signs since the last exact one, and the number of them at which workers agree next.
        self._since, self._next = 0, 1

    def exact_next(self, every: int | None) -> bool:
        """Return whether the next round is exact. ``every``: at least every so many rounds one is; None for no such
        limit."""
        return every is not None and (self._due or self._since + 1 >= every)

    def exchange(self, update: Tensor, collective: Collective, every: int | None, *, scaled: bool) -> Tensor:
        """Make a round with this worker's finite update, and return the change that all workers apply. All workers call
        it.

        ``scaled``: whether the optimizer is of the kind whose updates are too short. The update is overwritten. If the
        collective raises an error, nothing was carried or counted.
        """
        exact, rounds = self.exact_next(every), self._since + 1
        update.mul_(self._scale)
        self._learn(update)
        total = update.clone() if self._total is None else self._total + update
        if exact:
            change = self._average(update, total.div_(rounds), collective)
            self._total, self._since, self._next, self._due = None, 0, 1, False
        else:
            if rounds >= self._next:
                self._agree(update, total, rounds, collective, scaled=scaled)
            change = self._sign(update, collective)
            self._total, self._since = total, rounds
        return change

    def _learn(self, update: Tensor) -> None:
        squares = self._means_of_squares(update)
        self._squares = squares if self._squares is None else self._squares.lerp_(squares, 1 - KEPT)
        if self._shift is not None:
            pairs = zip(torch.split(update, self._lengths), torch.split(self._shift, self._lengths), strict=True)
            products = torch.stack([torch.dot(*pair) for pair in pairs]).to("cpu", torch.float64)
            self._products.lerp_(products / self._counts.clamp(min=1), 1 - KEPT)

    def _average(self, update: Tensor, sent: Tensor, collective: Collective) -> Tensor:
        change = collective.mean(sent).to(sent.dtype)
        if self.error is not None:
            self._bound(self.error.add_(update).sub_(sent))
        self._shift = sent.sub_(change)
        self._products = self._means_of_squares(self._shift)
        self._weight.fill_(1.0)
        return change

    def _sign(self, value: Tensor, collective: Collective) -> Tensor:
        if self._shift is not None:
            for piece, shift, weight in self._pieces(self._weight, value, self._shift):
                piece.sub_(shift, alpha=weight)
        if self.error is not None:
            value += self.error
        plus = value >= 0
        change, own = plus_minus(collective.sign_merge(plus), value.dtype), plus_minus(plus, value.dtype)
        for piece, sign, step in self._pieces(self._step, value, own):
            piece.sub_(sign, alpha=step)
        self._bound(value)
        self.error = value
        for piece, _, step in self._pieces(self._step, change, own):
            piece.mul_(step)
        return change

    def _agree(self, update: Tensor, total: Tensor, rounds: int, collective: Collective, *, scaled: bool) -> None:
        """Agree on step, weight, drift and scale: two means of a few numbers, all of them of an update's magnitude.
        ``total``: of the updates of so many rounds, this one included."""
        assert self._squares is not None
        chosen = self._sample.to(update.device)
        mean_update, own = total[chosen] / rounds, update[chosen]
        means = collective.mean(torch.cat([mean_update, own]) if scaled else mean_update)
        apart = mean_update - means[: len(mean_update)]
        shifts = torch.zeros_like(self._products)
        if self._shift is not None:
            apart -= self._weight[self._sampled].to(apart) * self._shift[chosen]
            shifts = self._means_of_squares(self._shift).sqrt_()
        along = torch.where(shifts > 0, self._products / shifts, 0.0)
        told = torch.cat([self._squares.sqrt(), shifts, along, _magnitude(apart), _magnitude(own)])
        heard = collective.mean(told.to(update.dtype).to(update.device)).to("cpu", torch.float64)
        sizes, shifts, along = heard[:-2].view(3, -1)
        apart_size, own_size = heard[-2:].tolist()
        self._weight = torch.where(shifts > 0, along / shifts, 0.0).clamp_(0, WEIGHT_MOST)
        left = (sizes.square() + self._weight * shifts * (self._weight * shifts - 2 * along)).clamp_(min=0)
        self._step = (STEP_SCALED if scaled else STEP) * left.sqrt()
        whole = float((left * self._counts).sum()) / max(sum(self._lengths), 1)
        self._due = apart_size**2 > max(DRIFT, CHANCE / rounds) * whole
        if scaled:
            mean_size = float(_magnitude(means[len(own) :]))
            found = min(max(own_size / mean_size, 1.0), SCALE_MOST) if mean_size > 0 else 1.0
            self._scale += (found - 1.0) if self._scale == 1.0 else (found - self._scale) / 2
        # Without any update yet, as in the first step of some warm-ups, the next round asks again.
        self._next = rounds + (min(rounds, APART) if self._step.any() else 1)

    def _bound(self, error: Tensor) -> None:
        for piece, _, step in self._pieces(self._step, error, error):
            piece.clamp_(-BOUND * step, BOUND * step)

    def _means_of_squares(self, flat: Tensor) -> Tensor:
        norms = torch.stack([torch.linalg.vector_norm(piece) for piece in torch.split(flat, self._lengths)])
        return norms.to("cpu", torch.float64).square_() / self._counts.clamp(min=1)

    def _pieces(self, numbers: Tensor, one: Tensor, other: Tensor) -> Iterator[tuple[Tensor, Tensor, float]]:
        """Views of two flat tensors, and the number of each parameter tensor."""
        return zip(torch.split(one, self._lengths), torch.split(other, self._lengths), numbers.tolist(), strict=True)

    def kept(self) -> Content:
        """Return the state: what another number of workers divides, and what all have agreed on."""
        residuals = {"compensation": self.error, "shift": self._shift, "total": self._total}
        agreed = {"squares": self._squares, "products": self._products, "step": self._step, "weight": self._weight}
        counts = {"due": self._due, "since": self._since, "next": self._next}
        return Content(residuals, {**agreed, "scale": self._scale, **counts})

    def restore(self, residuals: dict[Any, Any], rest: dict[str, Any]) -> None:
        """Continue from what :meth:`kept` returned."""
        self.error, self._shift, self._total = (residuals[name] for name in ("compensation", "shift", "total"))
        self._squares, self._products = rest["squares"], rest["products"]
        self._step, self._weight, self._scale = rest["step"], rest["weight"], rest["scale"]
        self._due, self._since, self._next = rest["due"], rest["since"], rest["next"]


def _magnitude(x: Tensor) -> Tensor:
    """The root mean square, of shape (1,); 0 for no values."""
    norm: Tensor = torch.linalg.vector_norm(x).to("cpu", torch.float64)[None]
    return norm.div_(max(len(x), 1) ** 0.5)
