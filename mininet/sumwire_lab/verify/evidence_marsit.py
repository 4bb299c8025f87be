# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The row `marsit` of `make verify-evidence`: Marsit's rules on text with Adam, four workers as threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final

from sumwire.training.optim import Marsit
from torch import nn
from torch.optim import Adam, Optimizer

from sumwire_lab.experiments.digits_accuracy import Optimizing, Training, averaged
from sumwire_lab.study.check import Check, at_least, at_most, reported
from sumwire_lab.training import text_data
from sumwire_lab.verify.evidence_thc import BATCH, QUICK_STEPS, RATE, STEPS, WIDTH
from sumwire_lab.verify.plan import Experiments, Verification

PERIODS: Final = (20, 100)
# Of S-SGD's bits a character.
MOST: Final = 1.02
SSGD: Final = "S-SGD"
PUBLISHED: Final = "published, K = 100"
LEAD_1: Final = "published, K = 100, lead 1"


def _inner(network: nn.Module) -> Optimizer:
    return Adam(network.parameters(), lr=RATE)


def _marsit(every: int, **settings: Any) -> Optimizing:
    return lambda network, end: Marsit(_inner(network), end, full_precision_every=every, **settings)


RULES: Final[Mapping[str, Optimizing]] = {
    SSGD: lambda network, end: averaged(_inner(network), end),
    **{f"K = {every}": _marsit(every) for every in PERIODS},
    PUBLISHED: _marsit(100, rule="published"),
    LEAD_1: _marsit(100, rule="published", lead=1.0),
}


def text_bits(optimizing: Optimizing, seed: int, steps: int, width: int = WIDTH) -> float:
    """Return the bits per character, on the held-out texts, of a transformer trained for ``steps`` steps."""
    network = partial(text_data.Transformer, width)
    task = Training(
        optimizing, seed, scheduled=True, network=network, samples=text_data.load, batch=BATCH, steps=steps
    )  # fmt: skip
    return task.score().bits


def text_checks(found: Mapping[str, Sequence[float]]) -> list[Check]:
    """Check bits per character. ``found``: by rule, seed by seed."""
    mean = {name: fmean(of) for name, of in found.items()}
    label = "Marsit, transformer with Adam: bits a character / S-SGD's"
    return [
        *(at_most(f"{label}, K = {every}", mean[f"K = {every}"] / mean[SSGD], MOST) for every in PERIODS),
        at_least(f"{label}, {LEAD_1}, which must not reach it", mean[LEAD_1] / mean[SSGD], MOST),
        reported(f"{label}, {PUBLISHED}", mean[PUBLISHED] / mean[SSGD]),
        reported("... by seed", {name: [round(one, 4) for one in of] for name, of in found.items()}),
    ]


def _text(v: Verification) -> list[Check]:
    steps = QUICK_STEPS if v.quick else STEPS
    found: dict[str, list[float]] = {name: [] for name in RULES}
    for seed in v.options.seeds:
        for name, of in found.items():
            v.say(f"text: {name}, seed {seed}")
            of.append(text_bits(RULES[name], seed, steps))
    return text_checks(found)


EXPERIMENTS: Final[Experiments] = {"text": _text}
