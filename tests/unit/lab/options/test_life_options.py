# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of verify-life."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.options import arguments
from sumwire_lab.options.life_options import BMV2_SEEDS, ROWS, SEEDS, LifeOptions


def parsed(*words: str) -> LifeOptions:
    return arguments.life_options(arguments.parser().parse_args(["verify-life", *words]))


def test_all_rows_are_the_default() -> None:
    assert parsed().rows == ROWS
    assert parsed("--rows", "link,switch", "--switches", "aggregator", "--parallel", "8") == LifeOptions(
        ("link", "switch"), ("aggregator",), None, 8
    )


def test_bmv2_has_fewer_seeds_unless_told_otherwise() -> None:
    assert [LifeOptions().seeds_of(switch) for switch in ("soft", "aggregator", "bmv2")] == [SEEDS, SEEDS, BMV2_SEEDS]
    assert parsed("--seeds", "3").seeds_of("bmv2") == 3


@pytest.mark.parametrize(
    "given",
    [{"rows": ("walk",)}, {"rows": ()}, {"rows": ("link", "link")}, {"switches": ("tofino",)}, {"seeds": 0},
     {"parallel": 0}, {"parallel": 65}],
)  # fmt: skip
def test_wrong_options_are_named(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        LifeOptions(**given)


def test_results_folder() -> None:
    assert arguments.parser().parse_args(["verify-life", "--results", "x"]).results == Path("x")
