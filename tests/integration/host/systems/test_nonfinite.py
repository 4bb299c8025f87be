# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity in every system: real ranks over gloo and through the aggregator, float16 and torch's GradScaler."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from helpers.aggregator.served import every_op_mapping, serving
from helpers.gloo import nonfinite_cases as cases
from helpers.gloo.ranks import Ranks
from helpers.gloo.systems_cases import OVER_A_SWITCH, SYSTEMS

RANKS = 3
STEPS = 12
# One rank, another, and all of them.
BAD = {3: [1], 6: [0], 9: list(range(RANKS))}
# Torch's Power-SGD keeps NaN for good: docs/systems.md.
OVER_GROUP: dict[str, dict[str, Any]] = {
    **{name: options for name, options in SYSTEMS.items() if name not in ("powersgd", "marsit-torus")},
    "dlcp-ring": {"loss_bound": 0.0},
}
REMEMBER_NOTHING = ("ssgd", "fp16", "bf16", "terngrad", "vote", "cascade-magnitude", "sum32")
CASES = [(name, "group") for name in OVER_GROUP] + [(name, "switch") for name in OVER_A_SWITCH]


def train(ranks: Ranks, name: str, transport: str, inside: bool, bad: dict[int, list[int]]) -> list[dict[str, Any]]:
    mapping = every_op_mapping(RANKS) if transport == "switch" else None
    options = dict((OVER_A_SWITCH if mapping else OVER_GROUP)[name])
    if inside and "scale" in options:
        # A hook's results are unscaled after it.
        options["scale"] *= cases.SCALE
    with nullcontext() if mapping is None else serving(mapping):
        return ranks.run(cases.train, mapping, name, options, inside, bad, STEPS)


@pytest.mark.parametrize("inside", [False, True], ids=["plain", "ddp"])
@pytest.mark.parametrize(("name", "transport"), CASES)
@pytest.mark.few(12)
def test_overflows_are_skipped_by_all_and_forgotten(ranks: Ranks, name: str, transport: str, inside: bool) -> None:
    outcomes = train(ranks, name, transport, inside, BAD)
    halved = [cases.SCALE / 2 ** sum(step <= now for step in BAD) for now in range(STEPS)]
    for outcome in outcomes:
        assert outcome["scales"] == halved
        assert outcome["skipped"] == [True] * len(BAD)
        assert min(outcome["nans"]) > 0
        assert outcome["parameters"] == outcomes[0]["parameters"]
        assert outcome["gradients"] == outcomes[0]["gradients"], "equal bits"
        if name not in REMEMBER_NOTHING:
            assert outcome["kept"] == [True] * len(BAD)


@pytest.mark.parametrize(("name", "transport"), [("thc", "switch"), ("topk", "group"), ("acp", "group")])
def test_training_gets_as_far_as_without_overflows(ranks: Ranks, name: str, transport: str) -> None:
    """The steps that are left are the same number; the batches differ."""
    without = train(ranks, name, transport, True, {})
    outcomes = train(ranks, name, transport, True, BAD)
    last, expected = (np.mean([o["losses"][-1] for o in each]) for each in (outcomes, without))
    first = np.mean([o["losses"][0] for o in outcomes])
    assert expected < 0.9 * first
    assert last < 0.95 * first


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", [name for name in OVER_GROUP if name not in ("acp", "acp-thc")])
@pytest.mark.few(12)
def test_without_a_scaler_it_passes_through_and_the_next_step_is_good(ranks: Ranks, name: str, value: float) -> None:
    outcomes = ranks.run(cases.without_scaler, name, OVER_GROUP[name], value)
    for poisoned, good in outcomes:
        assert poisoned == outcomes[0][0], "equal bits"
        assert not np.isfinite(np.array(poisoned, np.int32).view(np.float32)[7])
        assert name == "marsit-ring" or good == outcomes[0][1]
        assert np.isfinite(np.array(good, np.int32).view(np.float32)).all()


@pytest.mark.parametrize("inside", [False, True], ids=["plain", "ddp"])
@pytest.mark.parametrize(("name", "transport"), [*CASES, ("powersgd", "group")])
@pytest.mark.few(12)
def test_a_system_that_is_told_to_raise_does_so_on_all_ranks(
    ranks: Ranks, name: str, transport: str, inside: bool
) -> None:
    mapping = every_op_mapping(RANKS) if transport == "switch" else None
    options = {} if name == "powersgd" else (OVER_A_SWITCH if mapping else OVER_GROUP)[name]
    with nullcontext() if mapping is None else serving(mapping):
        outcomes = ranks.run(cases.told_to_raise, mapping, name, options, inside)
    for outcome in outcomes:
        assert outcome["text"].startswith("step 1: bucket ")
        assert "hold NaN or infinity" in outcome["text"]
        assert outcome["kept"]
        assert outcome["parameters"] == outcomes[0]["parameters"]
    assert inside or np.isfinite(np.array(outcomes[0]["parameters"], np.int32).view(np.float32)).all()
