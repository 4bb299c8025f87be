# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Systems over a real gloo group: replicas, and each system's numbers against its formula in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.gloo import systems_cases as cases
from helpers.gloo.ranks import Ranks
from numpy.typing import NDArray
from sumwire import systems
from sumwire.codec import oracles
from sumwire.codec.tables import solve
from sumwire.codec.thc import ThcCodec

RANKS = 4
Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def trained(ranks: Ranks) -> list[dict[str, dict[str, Any]]]:
    return ranks.run(cases.train, list(cases.SYSTEMS))


def given(step: int) -> list[Array]:
    return [cases.given(rank, step).numpy().astype(np.float64) for rank in range(RANKS)]


def gradients(ranks: Ranks, name: str, steps: int, **options: Any) -> list[Array]:
    """What every rank got, one array a step; equal on all."""
    found = ranks.run(cases.gradients, name, {**cases.SYSTEMS[name], **options}, steps)
    assert all(other == found[0] for other in found)
    return [np.array(step) for step in found[0]]


def test_all_systems_over_a_group_are_tried() -> None:
    assert set(cases.SYSTEMS) == {name for name, spec in systems.TABLE.items() if "group" in spec.routes}


@pytest.mark.parametrize("name", cases.SYSTEMS)
@pytest.mark.parametrize("kind", ["plain", "ddp"])
@pytest.mark.few(12)
def test_replicas_stay_equal(trained: list[dict[str, dict[str, Any]]], name: str, kind: str) -> None:
    outcomes = [of_rank[f"{name} {kind}"] for of_rank in trained]
    assert all(outcome["parameters"] == outcomes[0]["parameters"] for outcome in outcomes)
    start = cases.flat(cases.Net())
    assert float((torch.tensor(outcomes[0]["parameters"]) - start).norm()) > 0.1
    stats = outcomes[0]["stats"]
    assert stats["operations"] >= cases.STEPS
    assert 0 < stats["operation_s"] < 60
    assert stats["payload_bytes"] > 0


@pytest.mark.parametrize("name", cases.SYSTEMS)
@pytest.mark.few(6)
def test_closing_ends_its_threads(ranks: Ranks, name: str) -> None:
    for begun, left in ranks.run(cases.threads_around, name):
        # Threads of PowerSGD's group stay: torch's hook goes on in one of them, which must not end its own group.
        assert left == 0 or name == "powersgd"
        assert begun or name in {"ssgd", "fp16", "bf16", "marsit-ring", "marsit-torus", "dlcp-ring"}


@pytest.mark.parametrize(("name", "least", "most"), [("ssgd", -1.0, 1e-6), ("fp16", 1e-7, 1e-4), ("bf16", 1e-4, 1e-3)])
@pytest.mark.parametrize("kind", ["plain", "ddp"])
def test_uncompressed_training_is_that_of_the_mean_gradient(
    trained: list[dict[str, dict[str, Any]]], name: str, kind: str, least: float, most: float
) -> None:
    model = cases.Net()
    for step in range(cases.STEPS):
        totals = [torch.zeros_like(p) for p in model.parameters()]
        for rank in range(RANKS):
            model.zero_grad()
            x = cases.batch(rank, step)
            (model(x, step % 3 == 1) - x).square().mean().backward()
            for total, p in zip(totals, model.parameters(), strict=True):
                total.add_(0 if p.grad is None else p.grad / RANKS)
        with torch.no_grad():
            for total, p in zip(totals, model.parameters(), strict=True):
                p.sub_(0.1 * total)
    ends = torch.tensor(trained[0][f"{name} {kind}"]["parameters"])
    difference = float((ends - cases.flat(model)).abs().max())
    assert least < difference < most


def test_payload_bytes(trained: list[dict[str, dict[str, Any]]]) -> None:
    """A step of the plain model is one operation, but for the low-rank systems' buffers."""
    values = cases.flat(cases.Net()).numel()
    expected = {
        "ssgd": 4 * values,
        "fp16": 2 * values,
        "bf16": 2 * values,
        "topk": 8 * (values // 5),
        "terngrad": values + 4,
        "vote": 4 + -(-values // 8),
        "ef-sign": 4 + -(-values // 8),
        "thc": 1024 + 4,
    }
    for name, octets in expected.items():
        assert trained[0][f"{name} plain"]["stats"]["payload_bytes"] == cases.STEPS * octets, name
        assert trained[0][f"{name} plain"]["stats"]["operations"] == cases.STEPS
    for name in ("powersgd", "acp", "acp-thc"):
        assert trained[0][f"{name} plain"]["stats"]["payload_bytes"] < 0.8 * cases.STEPS * expected["ssgd"], name


def test_top_k_with_memory(ranks: Ranks) -> None:
    kept = [np.zeros(cases.LENGTH, np.float32) for _ in range(RANKS)]
    count = cases.LENGTH // 5
    for step, found in enumerate(gradients(ranks, "topk", 4)):
        total = np.zeros(cases.LENGTH)
        for rank, gradient in enumerate(given(step)):
            x = gradient.astype(np.float32) + kept[rank]
            largest = np.argsort(-np.abs(x), kind="stable")[:count]
            total[largest] += x[largest]
            kept[rank] = x.copy()
            kept[rank][largest] = 0
        np.testing.assert_allclose(found, total / RANKS, rtol=1e-5, atol=1e-6)


def test_top_k_of_all_is_the_mean(ranks: Ranks) -> None:
    for step, found in enumerate(gradients(ranks, "topk", 2, k=1)):
        np.testing.assert_allclose(found, np.mean(given(step), axis=0), rtol=1e-5, atol=1e-6)
    without = gradients(ranks, "topk", 2, error_feedback=False)
    assert np.count_nonzero(without[1]) > cases.LENGTH // 5
    assert not np.allclose(without[1], gradients(ranks, "topk", 2)[1])


def test_terngrad_is_the_mean_of_signs_without_bias(ranks: Ranks) -> None:
    found = gradients(ranks, "terngrad", 40)
    ratios = []
    for step, result in enumerate(found):
        clipped = [np.clip(gradient, *(side * 2.5 * gradient.std() for side in (-1, 1))) for gradient in given(step)]
        largest = max(np.abs(one).max() for one in clipped)
        signs = result * RANKS / largest
        np.testing.assert_allclose(signs, np.round(signs), atol=1e-4)
        mean = np.mean(clipped, axis=0)
        ratios.append(np.dot(result, mean) / np.dot(mean, mean))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.05)
    assert gradients(ranks, "terngrad", 1, seed=2)[0].tolist() != found[0].tolist()


def test_vote(ranks: Ranks) -> None:
    for step, found in enumerate(gradients(ranks, "vote", 2, scale=0.5)):
        plus = np.sum([gradient >= 0 for gradient in given(step)], axis=0)
        assert set(plus) == set(range(RANKS + 1)), "ties too"
        np.testing.assert_array_equal(found, np.where(plus >= RANKS / 2, 0.5, -0.5))


def test_ef_sign_with_memory(ranks: Ranks) -> None:
    kept = [np.zeros(cases.LENGTH) for _ in range(RANKS)]
    for step, found in enumerate(gradients(ranks, "ef-sign", 4)):
        total = np.zeros(cases.LENGTH)
        for rank, gradient in enumerate(given(step)):
            x = gradient + kept[rank]
            sent = np.abs(x).mean() * np.where(x >= 0, 1.0, -1.0)
            total += sent
            kept[rank] = x - sent
        np.testing.assert_allclose(found, total / RANKS, rtol=1e-4)


def test_thc_has_the_bits_of_a_switch(ranks: Ranks) -> None:
    table, number = solve(4, 30, 1 / 32), 3
    rounds = [
        ThcCodec(table, job=9, worker=rank, block=1024).begin(cases.given(rank, 1), 1, number) for rank in range(RANKS)
    ]
    agreed = np.maximum.reduce([one.norms() for one in rounds])
    summed = oracles.sum_words(table, [one.encode(agreed) for one in rounds])
    expected = rounds[0].decode(summed, np.full(len(summed), RANKS)).tolist()
    for one, (mean, residual) in zip(rounds, ranks.run(cases.thc_sums, number), strict=True):
        assert mean == expected
        assert residual == one.residual().tolist()


@pytest.mark.parametrize(("name", "expected"), [("thc", 0.0109), ("thc-uniform", 0.0118)])
def test_thc_errs_as_much_as_its_table(ranks: Ranks, name: str, expected: float) -> None:
    """Without memory, one step; of gradients whose energies differ little. docs/host.md has the errors of the mean."""
    [found] = gradients(ranks, name, 1, error_feedback=False)
    truth = np.mean(given(0), axis=0)
    error = np.square(found - truth).sum() / np.square(truth).sum()
    assert error == pytest.approx(expected, rel=0.4)


@pytest.mark.parametrize("name", ["acp", "acp-thc", "powersgd"])
def test_low_rank_reaches_the_mean_by_memory(ranks: Ranks, name: str) -> None:
    shape, steps = (12, 20), 30
    found = ranks.run(cases.low_rank, name, {**cases.SYSTEMS[name], "rank": 2}, shape, steps)
    assert all(other == found[0] for other in found)
    expected = np.mean([cases.given(rank, 0, 240).numpy().reshape(shape) for rank in range(RANKS)], axis=0)
    outcomes = [np.array(step) for step in found[0]]
    assert np.linalg.matrix_rank(outcomes[-1], tol=1e-3 * np.linalg.norm(outcomes[-1])) == 2
    error = np.linalg.norm(np.mean(outcomes, axis=0) - expected) / np.linalg.norm(expected)
    alone = np.linalg.norm(outcomes[-1] - expected) / np.linalg.norm(expected)
    assert error < 0.45 * alone, (error, alone)


def test_refusals_name_value_and_rule(ranks: Ranks) -> None:
    words = (
        "UsageError: granularity = 64: the sum of 4 workers must fit a byte: at most 63",
        "UsageError: system thc: granularity=0: must be a whole number in 1..4095",
        "UsageError: table of 5 bits",
        "UsageError: k = 0.0: must be a share",
        "UsageError: k = 1.5: must be a share",
        "UsageError: scale = -1.0: must be above 0",
        "UsageError: rank = 0: must be a whole number, 1 or more",
        "UsageError: start_iter = 1: must be 2 or more",
        "ScheduleError: torus of 3 rows",
        "UsageError: rank = 0: must be a whole number, 1 or more",
        "UsageError: accumulation = 0",
        "UsageError: system ssgd: the model has no parameters",
        "UsageError: system topk: the model has no parameters",
    )
    for found in ranks.run(cases.refusals):
        for text, word in zip(found, words, strict=True):
            assert word in text


def test_marsit_takes_a_process_group(ranks: Ranks) -> None:
    """All gradients are positive, so the merged signs are all plus."""
    assert ranks.run(cases.marsit_on_group) == [[[-2.5] * 11, [-3.0] * 11]] * RANKS


def test_group_of_some_ranks(ranks: Ranks) -> None:
    found = ranks.run(cases.pair)
    assert found[0] == found[2] == []
    # float32 and float16 bytes; the sum of two halves of 60000 would be infinite.
    assert found[1] == found[3] == [2.0] * 5 + [0.0] * 5 + [60000.0] * 2 + [24.0]


def test_peer_that_is_gone_is_a_typed_error(ranks: Ranks) -> None:
    for rank, found in enumerate(ranks.run(cases.broken)):
        for text in found:
            assert text.startswith(f"GroupError: rank {rank}: all-")
            assert "of 7 values failed: Connection closed" in text
