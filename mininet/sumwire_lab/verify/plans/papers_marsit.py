# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-papers` on Marsit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from sumwire.codec.ssdm import MOMENTUM

from sumwire_lab.experiments import marsit_digits, matching, sign_codecs
from sumwire_lab.experiments.replicas import EPOCHS, Digits
from sumwire_lab.options.papers_options import PapersOptions
from sumwire_lab.study.check import Check, reported
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import ROOT
from sumwire_lab.verify.rows import marsit as rows


def experiments(results: Path, say: Say, options: PapersOptions) -> Mapping[str, Experiment]:
    """By row."""
    epochs = 2 if options.quick else EPOCHS
    return {
        "readme": partial(_readme, options, epochs),
        **{inner.lower(): partial(_periods, inner, options, epochs) for inner in marsit_digits.INNER},
        "matching": _matching,
        "ssdm": partial(_ssdm, options),
        "ef-sign": _ef_sign,
    }


def _readme(options: PapersOptions, epochs: int) -> list[Check]:
    """As printed; and what it owes to the rule for the step, and to the lead."""
    printed = marsit_digits.as_printed((ROOT / "README.md").read_text())
    without = {
        "lead 1": marsit_digits.marsit("momentum", 100, lead=1.0),
        "global_lr 1e-3": marsit_digits.marsit("momentum", 100, global_lr=1e-3),
        "lead 1, global_lr 1e-3": marsit_digits.marsit("momentum", 100, lead=1.0, global_lr=1e-3),
    }
    found = marsit_digits.accuracies(printed, options.seeds, epochs=epochs)
    worse = {name: marsit_digits.accuracies(made, options.seeds, epochs=epochs) for name, made in without.items()}
    return [rows.readme(found), reported("README's Marsit example with other settings: test accuracy by seed", worse)]


def _periods(inner: str, options: PapersOptions, epochs: int) -> list[Check]:
    return [rows.periods(inner, marsit_digits.by_period(inner, options.seeds, epochs=epochs))]


def _matching() -> list[Check]:
    found = {workers: matching.rates(workers) for workers in matching.EXPECTED}
    expected = {
        "ring": matching.EXPECTED,
        "torus": matching.EXPECTED,
        "cascading": dict.fromkeys(matching.EXPECTED, matching.CASCADING),
    }
    return [
        rows.matching(name, {workers: rates[name] for workers, rates in found.items()}, wanted)
        for name, wanted in expected.items()
    ]


def _ssdm(options: PapersOptions) -> list[Check]:
    """With its momentum, and without."""
    epochs = 2 if options.quick else sign_codecs.SSDM_EPOCHS
    found = {
        momentum: [
            Digits(sign_codecs.ssdm(momentum=momentum), seed, epochs=epochs, scheduled=True).accuracy()
            for seed in options.seeds
        ]
        for momentum in (MOMENTUM, 0.0)
    }
    return [rows.ssdm(found[MOMENTUM]), reported("SSDM without momentum: test accuracy by seed", found[0.0])]


def _ef_sign() -> list[Check]:
    return [rows.ef_sign(sign_codecs.ef_sign_error(), sign_codecs.SCALES, sign_codecs.ROUNDS)]
