# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sign bits and trees of switches in Mininet, as short as they can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import ledgers
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions

pytestmark = [pytest.mark.mininet, pytest.mark.root]

STEPS = 10
# 96 hidden units: 16,522 parameters, three packets of signs.
PARAMETERS = 16_522
TRAIN = TrainOptions(hidden=96, max_steps=STEPS, nmse_samples=1)


def quiet(line: str) -> None:
    pass


def run(results: Path, **options: Any) -> dict[str, Any]:
    from sumwire_lab.run.training_run import run as run_lab

    wanted = RunOptions(link=LinkOptions(200.0, 256), train=TRAIN, switch="soft", deadline_s=100.0, **options)
    summary, _ = run_lab(wanted, results, quiet)
    assert not ledgers.of_this_process(), "nothing of the run is left"
    return summary


def test_marsit_trains_with_one_bit_a_value(tmp_path: Path) -> None:
    marsit = run(tmp_path, workers=2, systems=("marsit100",))["systems"]["marsit100"]
    assert (marsit["steps"], marsit["replicas_equal"], marsit["fallbacks"], marsit["nmse"]) == (STEPS, True, 0, None)
    assert marsit["parameters"] == PARAMETERS
    assert 0 < marsit["comm_s_per_step"] < 5
    assert marsit["accuracy"] > 0.5
    # The first of the ten steps is in full precision; then three packets of 8192 signs each. A packet that was sent
    # twice counts too, but there are not many.
    at_least = 0.1 * 32 + 0.9 * 3 * 8192 / PARAMETERS
    assert at_least <= marsit["payload_bits_per_value_up"] < 1.3 * at_least
    assert at_least <= marsit["payload_bits_per_value_down"] < 1.3 * at_least


@pytest.mark.long
def test_a_tree_with_two_spines_trains_as_a_star_does(tmp_path: Path) -> None:
    """THC is a sum, so the same sums must come out of any tree; the baseline's bridges must not loop."""
    tree = run(tmp_path, workers=2, systems=("gloo", "thc"), topology="leaf-spine2")["systems"]
    star = run(tmp_path, workers=2, systems=("thc",))["systems"]
    assert tree["thc"]["fingerprints"] == star["thc"]["fingerprints"]
    assert tree["thc"]["fallbacks"] == 0
    assert tree["gloo"]["replicas_equal"]
    assert tree["gloo"]["fingerprints"] != tree["thc"]["fingerprints"]
    # Two workers in a ring send and receive each value once.
    assert 30 < tree["gloo"]["payload_bits_per_value_up"] < 40


@pytest.mark.parametrize(("topology", "impair"), [("leaf-spine", "drop=0.02,dup=0.01,seed=3"), ("three-level", None)])
def test_every_op_is_right_in_a_tree(topology: str, impair: str | None, tmp_path: Path) -> None:
    from sumwire_lab.experiments.random_words import run_ops

    options = RunOptions(workers=4, link=LinkOptions(200.0), topology=topology, switch="soft", impair=impair)
    record = run_ops(options, tmp_path, quiet, chunks=70)
    assert set(record["ops"]) == {"thc", "max32", "sum32", "sign", "vote"}
    for op, entry in record["ops"].items():
        assert entry["right"] and entry["equal"], op
    assert record["ops"]["sign"]["worst_share_error"] < 5 / (70 * 8192) ** 0.5
    assert record["retransmissions"] > 0 or impair is None


@pytest.mark.long
def test_the_bias_test_runs_on_real_switches(tmp_path: Path) -> None:
    from sumwire_lab.experiments.sign_bias import run_bias

    outcomes = run_bias("leaf-spine", "soft", tmp_path, quiet, sizes=(2, 3), rounds=64)
    assert [outcome.workers for outcome in outcomes] == [2, 3]
    assert all(outcome.value_bias_z <= outcome.threshold_z for outcome in outcomes)
    assert all(outcome.pooled_bias < 6 * outcome.pooled_sd for outcome in outcomes)
