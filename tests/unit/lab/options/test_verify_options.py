# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of verify."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.options import arguments
from sumwire_lab.options.verify_options import BMV2_SEEDS, SEEDS, TOPICS, VerifyOptions, present


def parsed(*words: str) -> VerifyOptions:
    return arguments.verify_options(arguments.parser().parse_args(["verify", "life", *words]))


def test_all_rows_are_the_default() -> None:
    assert parsed().rows == parsed("--rows", "all").rows == TOPICS["life"].rows
    assert parsed().switches == parsed("--switches=all").switches == present()
    assert parsed("--rows", "link,switch", "--switches", "aggregator", "--parallel", "8") == VerifyOptions(
        "life", ("link", "switch"), ("aggregator",), None, 8
    )


def test_bmv2_has_fewer_seeds_unless_told_otherwise() -> None:
    assert [VerifyOptions("life").seeds_of(switch) for switch in ("soft", "aggregator", "bmv2")] == [
        SEEDS,
        SEEDS,
        BMV2_SEEDS,
    ]
    assert parsed("--seeds", "3").seeds_of("bmv2") == 3


@pytest.mark.parametrize(
    "given",
    [{"rows": ("walk",)}, {"rows": ("link", "link")}, {"switches": ("tofino",)}, {"repeats": 0},
     {"parallel": 0}, {"parallel": 65}],
)  # fmt: skip
def test_wrong_options_are_named(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(given)).replace("repeats", "seeds")):
        VerifyOptions("life", **given)


def test_results_folder() -> None:
    assert arguments.parser().parse_args(["verify", "life", "--results", "x"]).results == Path("x")
