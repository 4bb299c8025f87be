# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of `make verify-papers` on Marsit: experiments, and the checks computed from their measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final

from sumwire.codec.sign import MOMENTUM

from sumwire_lab.experiments import closed_forms, digits_accuracy, marsit_tasks
from sumwire_lab.experiments.digits_accuracy import EPOCHS, Training
from sumwire_lab.study.check import Check, at_least, at_most, holds, must_fail, reported
from sumwire_lab.verify.plan import ROOT, ROUNDING, Experiments, Verification

README_MIN: Final = 0.96
GAP_MAX: Final = 0.015
SSDM_MIN: Final = 0.88
EF_SIGN_ERROR_MAX: Final = 1e-3
MATCHING_GAP_MAX: Final = 0.02
# Known to be bad: signs of the paper's lead, and a step that is too small for the updates.
SMALL_STEP: Final = "published, lead 1, global_lr 1e-4"
BAD: Final[Mapping[str, Any]] = {"rule": "published", "lead": 1.0, "global_lr": 1e-4}


def readme_checks(accuracies: Sequence[float], known_bad: Sequence[float]) -> list[Check]:
    """Check README's example, seed by seed. ``known_bad``: those of :data:`BAD`."""
    label = "README's Marsit example as printed, digits: test accuracy by seed"
    return [
        holds(label, list(accuracies), f">= {README_MIN:g} each", min(accuracies) >= README_MIN),
        _fails(f"README's Marsit example, {SMALL_STEP}", known_bad, README_MIN),
    ]


def _fails(name: str, accuracies: Sequence[float], bound: float) -> Check:
    """Check that the known-bad variant is below its row's bound on each seed, so that the row can tell."""
    label = f"{name}, known to be bad: test accuracy by seed"
    return holds(label, list(accuracies), f"< {bound:.4g} each", max(accuracies) < bound)


def period_checks(inner: str, means: Mapping[str, float], known_bad: Sequence[float]) -> list[Check]:
    """Check the accuracy of S-SGD and of Marsit by K, with one local optimizer. ``known_bad``: that of :data:`BAD`,
    seed by seed."""
    least = means["S-SGD"] - GAP_MAX - ROUNDING
    return [
        holds(
            f"Marsit around {inner}, digits: mean test accuracy of S-SGD, and by K",
            dict(means),
            f"not more than {100 * GAP_MAX:g} points below S-SGD",
            min(means.values()) >= least,
        ),
        _fails(f"Marsit around {inner}, {SMALL_STEP}", known_bad, least),
    ]


def task_check(name: str, found: Mapping[str, Sequence[float]], *, published_fails: bool) -> Check:
    """Check accuracies by rule on one task, by seed. ``published_fails``: the same bound must detect that the published
    rule fails."""
    means = {rule: fmean(accuracies) for rule, accuracies in found.items()}
    least = means[marsit_tasks.SSGD] - GAP_MAX - ROUNDING
    holding = {rule for rule, mean in means.items() if mean >= least}
    wanted = means.keys() - ({marsit_tasks.PUBLISHED} if published_fails else set())
    rest = ", and the published rule is" if published_fails else ""
    return holds(
        f"Marsit, {name}: mean test accuracy by rule",
        means,
        f"not more than {100 * GAP_MAX:g} points below S-SGD{rest}",
        holding == wanted if published_fails else wanted - {marsit_tasks.PUBLISHED} <= holding,
    )


def matching_check(name: str, found: Mapping[int, float], expected: Mapping[int, float]) -> Check:
    """Check the matching rates by number of workers."""
    return holds(
        f"matching rate by workers, {name}",
        {str(workers): rate for workers, rate in found.items()},
        f"within {MATCHING_GAP_MAX:g} of {', '.join(f'{rate:.2f}' for rate in expected.values())}",
        all(abs(found[workers] - rate) <= MATCHING_GAP_MAX for workers, rate in expected.items()),
    )


def ssdm_checks(accuracies: Sequence[float], without: Sequence[float]) -> list[Check]:
    """Check SSDM on the digits, seed by seed. ``without``: those without its momentum."""
    label = "SSDM, digits: test accuracy by seed"
    return [
        holds(label, list(accuracies), f">= {SSDM_MIN:g} each", min(accuracies) >= SSDM_MIN),
        _fails("SSDM without momentum", without, SSDM_MIN),
    ]


def ef_sign_checks(error: float, without: float, scales: Sequence[float], rounds: int) -> list[Check]:
    """Check what EF-signSGD leaves out in the mean over the rounds. ``without``: without its error feedback."""
    named = ", ".join(f"{one:g}" for one in scales)
    label = f"EF-signSGD over a switch, scales {named}: NMSE of the mean of {rounds} rounds"
    return [
        at_most(label, error, EF_SIGN_ERROR_MAX),
        at_least(f"{label}, without error feedback, known to be bad", without, EF_SIGN_ERROR_MAX),
    ]


def _epochs(v: Verification) -> int:
    return 2 if v.quick else EPOCHS


def _readme(v: Verification) -> list[Check]:
    """As printed; and with the published rule, whose step and lead are given in two of three."""
    printed = digits_accuracy.as_printed((ROOT / "README.md").read_text())
    without = {
        "published": digits_accuracy.marsit("momentum", 100, rule="published"),
        "published, lead 1": digits_accuracy.marsit("momentum", 100, rule="published", lead=1.0),
        "published, lead 1, global_lr 1e-3": digits_accuracy.marsit(
            "momentum", 100, rule="published", lead=1.0, global_lr=1e-3
        ),
    }
    accuracies = partial(digits_accuracy.accuracies, seeds=v.options.seeds, epochs=_epochs(v))
    worse = {name: accuracies(made) for name, made in without.items()}
    label = "README's Marsit example with other settings: test accuracy by seed"
    known_bad = accuracies(digits_accuracy.marsit("momentum", 100, **BAD))
    return [*readme_checks(accuracies(printed), known_bad), reported(label, worse)]


def _periods(inner: str, v: Verification) -> list[Check]:
    seeds, epochs = v.options.seeds, _epochs(v)
    known_bad = digits_accuracy.accuracies(digits_accuracy.marsit(inner, 100, **BAD), seeds, epochs)
    return period_checks(inner, digits_accuracy.by_period(inner, seeds, epochs=epochs), known_bad)


def _tasks(v: Verification) -> list[Check]:
    seeds, epochs, checks = v.options.seeds, _epochs(v), []
    for name, task in marsit_tasks.TASKS.items():
        found = task.by_rule(seeds, epochs)
        checks.append(task_check(name, found, published_fails=task.published_fails))
        if not task.published_fails:
            bad = task.accuracies(digits_accuracy.marsit(marsit_tasks.INNER, 100, **BAD), seeds, epochs)
            kept = {marsit_tasks.SSGD: found[marsit_tasks.SSGD], SMALL_STEP: bad}
            checks.append(must_fail(SMALL_STEP, task_check(name, kept, published_fails=False)))
    return checks


def _matching(_: Verification) -> list[Check]:
    found = {workers: closed_forms.matching_rates(workers) for workers in closed_forms.MATCHING_EXPECTED}
    expected = {
        "ring": closed_forms.MATCHING_EXPECTED,
        "torus": closed_forms.MATCHING_EXPECTED,
        "cascading": dict.fromkeys(closed_forms.MATCHING_EXPECTED, closed_forms.CASCADING_RATE),
    }
    return [
        matching_check(name, {workers: rates[name] for workers, rates in found.items()}, wanted)
        for name, wanted in expected.items()
    ]


def _ssdm(v: Verification) -> list[Check]:
    """With its momentum, and without."""
    epochs = 2 if v.quick else digits_accuracy.SSDM_EPOCHS
    found = {
        momentum: [
            Training(digits_accuracy.ssdm(momentum=momentum), seed, epochs=epochs, scheduled=True).accuracy()
            for seed in v.options.seeds
        ]
        for momentum in (MOMENTUM, 0.0)
    }
    return ssdm_checks(found[MOMENTUM], found[0.0])


def _ef_sign(_: Verification) -> list[Check]:
    found, without = (digits_accuracy.ef_sign_error(feedback=one) for one in (True, False))
    return ef_sign_checks(found, without, digits_accuracy.SCALES, digits_accuracy.ROUNDS)


EXPERIMENTS: Final[Experiments] = {
    "readme": _readme,
    **{inner.lower(): partial(_periods, inner) for inner in digits_accuracy.INNER},
    "tasks": _tasks,
    "matching": _matching,
    "ssdm": _ssdm,
    "ef-sign": _ef_sign,
}
