# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows `thc` of `make verify-evidence`: THC on tasks whose results depend on the codec, in one process.

All workers' gradients are computed on one model, since replicas are equal, and summed as a switch sums their packets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Final

import torch
from sumwire.codec.naive import NaiveCodec
from sumwire.codec.oracles import layered_gradient, mean_of, nmse
from sumwire.codec.tables import for_workers
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec
from sumwire_protocol.tables import DEFAULT_BITS, UNIFORM
from torch import Tensor, nn

from sumwire_lab.study.check import Check, at_least, at_most, must_fail, reported
from sumwire_lab.training import text_data, workload
from sumwire_lab.training.digits_data import Samples
from sumwire_lab.training.workload import learning_rate_factor
from sumwire_lab.verify.plan import Experiments, Verification

WORKERS: Final = 4
# 686,433 parameters.
WIDTH: Final = 128
BATCH: Final = 8
RATE: Final = 2e-3
STEPS: Final = 400
QUICK_STEPS: Final = 20
# How many more steps THC may need.
MORE: Final = 1.05
SSGD: Final = "S-SGD"
NAIVE: Final = "naive 4 bits"
TWO_BITS: Final = "THC, 2 bits"
BITS: Final = "THC, 4 bits"

MakeCodec = Callable[[int], ThcCodec | NaiveCodec]
"""From a worker's number to its codec."""


def thc(worker: int, bits: int = DEFAULT_BITS, block: int = BLOCK_VALUES) -> ThcCodec:
    return ThcCodec(for_workers(WORKERS, bits), job=1, worker=worker, block=block)


def naive(worker: int) -> NaiveCodec:
    return NaiveCodec(for_workers(WORKERS, kind=UNIFORM))


MAKERS: Final[Mapping[str, MakeCodec]] = {BITS: thc, TWO_BITS: partial(thc, bits=2), NAIVE: naive}


class Means:
    """Computes the mean of the workers' gradients by their codecs, with error feedback; without codecs the exact
    mean."""

    def __init__(self, make: MakeCodec | None) -> None:
        self._codecs = [] if make is None else [make(worker) for worker in range(WORKERS)]
        self._left: list[Tensor] | None = None

    def of(self, gradients: Sequence[Tensor], step: int) -> Tensor:
        if not self._codecs:
            return torch.stack(list(gradients)).mean(dim=0)
        left = self._left or [torch.zeros_like(x) for x in gradients]
        rounds = [codec.begin(x + kept, step, 0) for codec, x, kept in zip(self._codecs, gradients, left, strict=True)]
        mean = mean_of(rounds, self._codecs[0].table)
        self._left = [round_.residual() for round_ in rounds]
        return mean


def text_bits(make: MakeCodec | None, seed: int, steps: int, width: int = WIDTH) -> float:
    """Return the bits per character, on the held-out texts, of a transformer that Adam trains for ``steps`` steps."""
    samples = text_data.load()
    torch.manual_seed(seed)
    network, means = text_data.Transformer(width), Means(make)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    draws = torch.Generator().manual_seed(seed)
    for step in range(steps):
        gradients = [_gradient(network, samples, draws) for _ in range(WORKERS)]
        _set_gradient(network, means.of(gradients, step))
        optimizer.param_groups[0]["lr"] = RATE * learning_rate_factor(step, steps)
        optimizer.step()
    return workload.score(network, samples).bits


def _set_gradient(network: nn.Module, gradient: Tensor) -> None:
    parameters = [*network.parameters()]
    parts = torch.split(gradient, [p.numel() for p in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter)


def _gradient(network: nn.Module, samples: Samples, draws: torch.Generator) -> Tensor:
    chosen = torch.randint(len(samples.train_x), (BATCH,), generator=draws)
    loss = workload.loss(network, samples.train_x[chosen], samples.train_y[chosen])
    parts = torch.autograd.grad(loss, [*network.parameters()])
    return torch.cat([part.flatten() for part in parts])


def text_checks(found: Mapping[str, Sequence[float]]) -> list[Check]:
    """Check bits per character. ``found``: by codec, seed by seed. S-SGD trains for fewer steps than the others."""
    mean = {name: fmean(of) for name, of in found.items()}
    label = f"transformer, Adam, {MORE:g} x S-SGD's steps: bits a character / S-SGD's"

    def over_naive(name: str) -> Check:
        return at_most("... THC / naive 4 bits", mean[name] / mean[NAIVE], 1.0)

    return [
        at_most(label, mean[BITS] / mean[SSGD], 1.0),
        at_least(f"{label}, with 2 bits, which must not reach it", mean[TWO_BITS] / mean[SSGD], 1.0),
        over_naive(BITS),
        must_fail(TWO_BITS, over_naive(TWO_BITS)),
        reported("... by seed", {name: [round(one, 4) for one in of] for name, of in found.items()}),
    ]


def _text(v: Verification) -> list[Check]:
    steps = QUICK_STEPS if v.quick else STEPS
    found: dict[str, list[float]] = {name: [] for name in (SSGD, *MAKERS)}
    for seed in v.options.seeds:
        for name, of in found.items():
            v.say(f"text: {name}, seed {seed}")
            of.append(text_bits(MAKERS.get(name), seed, steps if name == SSGD else round(MORE * steps)))
    return text_checks(found)


VALUES: Final = 1 << 18
ROW_VALUES: Final = 64
# Of an embedding's rows, those whose words a batch has.
ROWS_MET: Final = 0.02
OTHER_ROWS_MET: Final = (0.001, 0.005, 0.05, 0.1)
HEAVY: Final = ("Student's t, 2 degrees", "Student's t, 3 degrees")
HEAVY_MOST: Final = 0.9
LAYERS: Final = "layers of different scales"
EMBEDDING: Final = "an embedding's"
# Values of a layer of LAYERS, and of a rotation block.
LAYER_VALUES: Final = 4096
LONG_BLOCK: Final = 1 << 16
LONG: Final = "THC, 4 bits, blocks of 65,536"
NMSE_MAKERS: Final[Mapping[str, MakeCodec]] = {**MAKERS, LONG: partial(thc, block=LONG_BLOCK)}


def _embedding(draws: torch.Generator, met: float = ROWS_MET) -> Tensor:
    rows = torch.randn(VALUES // ROW_VALUES, ROW_VALUES, generator=draws)
    return (rows * (torch.rand(len(rows), 1, generator=draws) < met)).flatten()


def _network(draws: torch.Generator) -> Tensor:
    """Layers whose scales differ, but are the same on all workers."""
    scales = layered_gradient(VALUES, 1.0, torch.Generator().manual_seed(1), LAYER_VALUES).view(-1, LAYER_VALUES)
    return torch.randn(VALUES, generator=draws) * scales.std(dim=1).repeat_interleave(LAYER_VALUES)


def _student(draws: torch.Generator, degrees: int) -> Tensor:
    squares = torch.randn(degrees, VALUES, generator=draws).square().mean(dim=0)
    return torch.randn(VALUES, generator=draws) / squares.sqrt()


GRADIENTS: Final[Mapping[str, Callable[[torch.Generator], Tensor]]] = {
    "normal": lambda draws: torch.randn(VALUES, generator=draws),
    LAYERS: partial(layered_gradient, VALUES, 1.0, segment=LAYER_VALUES),
    EMBEDDING: _embedding,
    HEAVY[0]: partial(_student, degrees=2),
    HEAVY[1]: partial(_student, degrees=3),
}


def nmse_checks(errors: Mapping[str, Mapping[str, float]]) -> list[Check]:
    """Check the error of the mean. ``errors``: its NMSE by kind of gradients and by codec. THC with 2 bits is known to
    be bad."""
    most = {kind: HEAVY_MOST if kind in HEAVY else 1.0 for kind in errors}
    over = {kind: {name: error / of[NAIVE] for name, error in of.items()} for kind, of in errors.items()}
    label = "NMSE of the mean, THC / naive 4 bits"
    return [
        *(at_most(f"{label}: {kind}", over[kind][BITS], most[kind]) for kind in errors),
        at_least(
            f"{label}, with 2 bits: least share of the bound", min(over[k][TWO_BITS] / most[k] for k in most), 1.0
        ),
        reported("NMSE of the mean by codec", {kind: dict(of) for kind, of in errors.items()}),
    ]


def _errors(make: Callable[[torch.Generator], Tensor], parts: int = 1) -> dict[str, float]:
    """Return the NMSE of one mean by codec; the mean over ``parts`` equal parts of the tensor."""
    draws = torch.Generator().manual_seed(1)
    gradients = [make(draws) for _ in range(WORKERS)]
    truth = torch.stack(gradients).mean(dim=0).chunk(parts)
    found = {name: Means(codec).of(gradients, 0).chunk(parts) for name, codec in NMSE_MAKERS.items()}
    return {name: fmean(map(nmse, of, truth)) for name, of in found.items()}


def _nmse(_: Verification) -> list[Check]:
    """And what longer rotation blocks would change."""
    errors = {kind: _errors(make) for kind, make in GRADIENTS.items()}
    rarer = {met: _errors(partial(_embedding, met=met)) for met in OTHER_ROWS_MET} | {ROWS_MET: errors[EMBEDDING]}
    by_layer = _errors(_network, VALUES // LAYER_VALUES)
    return [
        *nmse_checks(errors),
        *(
            reported(f"{name} / naive 4 bits, an embedding's, by share of rows met", {
                f"{met:g}": of[name] / of[NAIVE] for met, of in sorted(rarer.items())
            })
            for name in (BITS, LONG)
        ),
        reported("mean NMSE of a layer / naive 4 bits, layers of different scales, each equal on all workers", {
            name: by_layer[name] / by_layer[NAIVE] for name in (BITS, LONG)
        }),
    ]  # fmt: skip


EXPERIMENTS: Final[Experiments] = {"nmse": _nmse, "text": _text}
