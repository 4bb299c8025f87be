# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Agreed fall-back and the DDP hook on four real gloo ranks, with the golden switch on loopback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from golden import model
from helpers.gloo import ddp_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import Bridge, Impairment, golden_switch, job_mapping, on_loopback
from sumwire.errors import UsageError
from sumwire.job.collectives import Elementwise

RANKS = 4
LENGTH = 5000
# NMSE of THC with the default table: 0.011 (docs of the codec); with room for short tensors.
NMSE_MAX = 0.03


def packet(datagram: bytes) -> model.Packet:
    return model.decode(datagram)


class Silence:
    """A switch that hears nothing from a certain packet on."""

    def __init__(self, last: Callable[[model.Packet], bool]) -> None:
        self.last = last
        self.begun = False

    def __call__(self, _: int, datagram: bytes) -> bool:
        self.begun = self.begun or self.last(packet(datagram))
        return self.begun


def exact_means(operations: int) -> list[torch.Tensor]:
    return [torch.stack([ddp_cases.inputs(r, k, LENGTH) for r in range(RANKS)]).mean(0) for k in range(operations)]


def assert_equal_and_near(outcomes: list[dict[str, Any]], operations: int) -> None:
    """All ranks have the same results, and with their residuals they account for every input in full:
    inputs so far = results so far + residuals now, as means over the workers."""
    for outcome in outcomes:
        assert outcome["error"] == ""
        assert outcome["results"] == outcomes[0]["results"]
    given, received = torch.zeros(LENGTH), torch.zeros(LENGTH)
    for number, exact in enumerate(exact_means(operations)):
        given += exact
        received += torch.tensor(outcomes[0]["results"][number])
        left = torch.tensor([outcome["residuals"][number] for outcome in outcomes]).mean(0)
        torch.testing.assert_close(received + left, given, rtol=0, atol=2e-5)


def test_switch_falls_silent_in_the_middle(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    calls = ddp_cases.CallNumbers()
    with Bridge(mapping, golden_switch(mapping), deaf=Silence(lambda p: calls.of(p) >= 2 and p.chunk > 1)):
        outcomes = ranks.run(ddp_cases.operations, mapping, [4] * RANKS, LENGTH)
    assert_equal_and_near(outcomes, 4)
    for outcome in outcomes:
        assert (outcome["fallbacks"], outcome["ordinary"], outcome["fallen"]) == (1, 2, True)
        assert not any(outcome["residuals"][3]), "the ordinary all-reduce leaves nothing out"
        [line] = outcome["log"]
        assert "falls back" in line
        assert "does not answer" in line


def test_switch_silent_from_the_start(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    outcomes = ranks.run(ddp_cases.operations, mapping, [2] * RANKS, LENGTH, "always")
    assert_equal_and_near(outcomes, 2)
    assert [outcome["ordinary"] for outcome in outcomes] == [2] * RANKS


@pytest.mark.parametrize("last", [False, True], ids=["others go on", "others close"])
def test_one_worker_misses_a_result(ranks: Ranks, last: bool) -> None:
    """It gets that result from another worker, so that no replica applies another sum."""
    mapping = job_mapping(RANKS, 8)
    victim = 1
    address = mapping["addresses"][victim]["ip"]
    calls = ddp_cases.CallNumbers()

    def lost(_: int, frame: bytes) -> bool:
        result = packet(frame[42:])
        to_victim = on_loopback(".".join(map(str, frame[30:34]))) == address
        is_second = calls.of(result) == 1
        return to_victim and result.op == model.THC and is_second and result.chunk == 4

    operations = 2 if last else 4
    with Bridge(mapping, golden_switch(mapping), mute=lost):
        outcomes = ranks.run(ddp_cases.operations, mapping, [operations] * RANKS, LENGTH)
    assert_equal_and_near(outcomes, operations)
    for outcome in outcomes:
        assert outcome["changes"][0].operation == 2, "operation 1 was summed by the switch for all"
        assert any(outcome["residuals"][1]), "so its residuals stand"
        assert outcome["fallbacks"] == 1


def test_nobody_waits_for_a_worker_that_closed(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    with Bridge(mapping, golden_switch(mapping)):
        outcomes = ranks.run(ddp_cases.operations, mapping, [1, 2, 2, 2], LENGTH)
    assert outcomes[0]["error"] == ""
    for outcome in outcomes[1:]:
        assert outcome["error"].startswith(
            "PeerLostError: job test: operation 1 cannot be finished: workers [0] have closed the job; "
        )
        assert outcome["results"] == outcomes[0]["results"]


def test_a_greeting_waits_for_the_last_worker_whatever_the_quorum(ranks: Ranks) -> None:
    """Three of four can end a chunk, but not the greeting: worker 3 still reads its first batch."""
    mapping = {**job_mapping(RANKS, 8), "quorum": 3}
    with Bridge(mapping, golden_switch(mapping)):
        outcomes = ranks.run(ddp_cases.one_comes_late, mapping, 3)
    assert outcomes == [("", 0, outcomes[0][2])] * RANKS
    assert 0.5 < outcomes[0][2][0] < 4.5


@pytest.mark.parametrize(
    ("unused", "accumulate", "half", "operations"),
    [(False, False, False, 11), (True, False, False, 18), (False, True, False, 11), (False, False, True, 11)],
    ids=["rebuilt buckets", "unused parameters", "no_sync", "bfloat16"],
)
@pytest.mark.few(2)
def test_ddp_gradients(ranks: Ranks, unused: bool, accumulate: bool, half: bool, operations: int) -> None:
    """Against DDP's own all-reduce on the same batches: near in each step, nearer in sum (error feedback).

    DDP makes one bucket in its first step and two after it has rebuilt them; with find_unused_parameters it keeps
    the three it started with.
    """
    mapping = job_mapping(RANKS, 64)
    impairment = Impairment(seed=5, drop=0.01, duplicate=0.01, reorder=0.02)
    with Bridge(mapping, golden_switch(mapping), impairment):
        outcomes = ranks.run(ddp_cases.train, mapping, 6, unused, accumulate, half)
    for outcome in outcomes:
        assert max(outcome["errors"]) < NMSE_MAX
        assert outcome["sum_error"] < max(outcome["errors"]) / 20
        assert outcome["grads"] == outcomes[0]["grads"]
        assert outcome["operations"] == operations
        assert outcome["residuals"] == 8
        assert outcome["fallbacks"] == 0
        assert not outcome["thread_alive"]


@pytest.mark.parametrize("other", ["hook", "state", "acp-thc"])
def test_two_models_on_one_job(ranks: Ranks, other: str) -> None:
    """Each gets its own means, although the workers' backward passes hand the buckets over at other times."""
    mapping = job_mapping(RANKS, 64)
    with Bridge(mapping, golden_switch(mapping)):
        outcomes = ranks.run(ddp_cases.twins, mapping, other, 25)
    for outcome in outcomes:
        assert max(outcome["errors"]) < 0.1
        assert outcome["gradients"] == outcomes[0]["gradients"]


def test_a_rank_without_samples_joins(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 64)
    with Bridge(mapping, golden_switch(mapping)):
        for error, refused in ranks.run(ddp_cases.joined, mapping, True):
            assert error < NMSE_MAX
            assert refused == []


def test_a_join_that_divides_by_the_remaining_ranks_is_refused(ranks: Ranks) -> None:
    """In its first step, on every rank."""
    mapping = job_mapping(RANKS, 64)
    with Bridge(mapping, golden_switch(mapping)):
        for _, (refused,) in ranks.run(ddp_cases.joined, mapping, False):
            assert refused.startswith("model.join(divide_by_initial_world_size=False): no hook learns which ranks")


def test_errors_come_out_of_backward(ranks: Ranks) -> None:
    for outcome in ranks.run(ddp_cases.fail_without_fallback, job_mapping(RANKS, 8)):
        [(kind, text)] = outcome["raised"]
        assert kind == "SwitchLostError"
        assert "does not answer" in text


def test_every_function_of_an_elementwise_op_without_the_switch(ranks: Ranks) -> None:
    ufuncs = ["maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"]
    numbers = np.random.default_rng(3).integers(0, 2**32, (RANKS, 50))
    expected = [getattr(np, ufunc).reduce(numbers, axis=0).tolist() for ufunc in ufuncs]
    assert ranks.run(ddp_cases.reductions, ufuncs, numbers.tolist()) == [expected] * RANKS


def test_an_op_that_is_not_elementwise_is_refused() -> None:
    with pytest.raises(UsageError, match="op 'sum32': need one of max32, min32"):
        Elementwise("sum32", np.zeros(1, np.uint32))


@pytest.mark.parametrize("silent", [False, True])
def test_every_collective_with_and_without_the_switch(ranks: Ranks, silent: bool) -> None:
    mapping = {**job_mapping(RANKS, 8), "ops": list(model.OP_NAMES.values())}
    switch = golden_switch(mapping)
    [job] = switch.jobs
    every = frozenset(model.OPS)
    switch = replace(switch, jobs=(replace(job, ops=every),))
    with Bridge(mapping, switch, deaf=lambda *_: silent):
        outcomes = ranks.run(ddp_cases.collectives, mapping, LENGTH)
    plus = torch.stack([ddp_cases.inputs(r, 0, LENGTH) for r in range(RANKS)]).ge(0)
    for vote, signs, sums, largest, smallest, overflow, counts in outcomes:
        assert vote == plus.sum(0).mul(2).ge(RANKS).int().tolist()
        assert signs == outcomes[0][1], "equal on all workers"
        merged = torch.tensor(signs, dtype=torch.bool)
        assert not (plus.all(0) & ~merged).any()
        assert not (~plus.any(0) & merged).any()
        if silent:
            # A draw among four with the mean of their signs: 5 standard deviations.
            assert abs(float(merged.float().mean() - plus.float().mean())) < 5 * 0.5 / LENGTH**0.5
        assert sums == [value * 10 for value in range(LENGTH)]
        assert largest == [value * RANKS + 2**31 for value in range(LENGTH)]
        assert smallest == [value + 2**31 for value in range(LENGTH)]
        assert overflow == [True]
        assert counts == ([1, 6, 6] if silent else [0, 0, 6])
