# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The studies of docs/simulate.md by name, for `sumwire-lab simulate NAME`. Each asks one question and draws one
figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sumwire_lab.options.fields import one_of
from sumwire_lab.options.simulate_options import FLOWS, SimulateOptions, with_values
from sumwire_lab.simulate import measure
from sumwire_lab.study.figures import Figure
from sumwire_lab.study.study import Study, grid


def simulate(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Simulate a case: values of options by their names on the command line."""
    return measure.rows(with_values(SimulateOptions(), case))


def _thc_scale() -> Study:
    shapes = {4: "4", 16: "16", 32: "32", 128: "32,4", 1024: "32,32"}
    cases = [
        {
            "engine": FLOWS,
            "workers": workers,
            "levels": levels,
            "rate-bit-s": rate,
            "systems": systems,
            "model": "bert-base",
        }
        for workers, levels in shapes.items()
        for rate in (1e9, 10e9, 100e9)
        for systems in ("gloo", "halving-doubling", "thc", "thc-16")
    ]
    return Study(
        "simulate-thc-scale",
        "BERT-Base's step from 4 to 1024 workers: THC with sums of 8 and of 16 bits against all-reduces of hosts",
        cases,
        simulate,
        measure.COLUMNS,
        figures=(
            Figure("workers", "exposed_s", by="system", panel="rate-bit-s", log_x=True, log_y=True,
                   x_label="workers", y_label="exposed communication (s)"),
        ),
    )  # fmt: skip


NAMED: Final[Mapping[str, Callable[[], Study]]] = {"thc-scale": _thc_scale}


def named(name: str) -> Study:
    """Return a study by its name. Raises OptionError for an unknown one."""
    one_of(tuple(NAMED), ", or a grid, NAME.yaml").check("study", name)
    return NAMED[name]()


__all__ = ["NAMED", "grid", "named", "simulate"]
