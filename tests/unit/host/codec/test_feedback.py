# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Error feedback: nothing is lost, whatever happens to the buckets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sumwire.codec.errors import FeedbackShapeError
from sumwire.codec.feedback import ErrorFeedback, ParameterFeedback
from sumwire.codec.oracles import sum_words
from sumwire.codec.tables import solve
from sumwire.codec.thc import ThcCodec


def test_residual_is_added_once_per_key_to_a_copy() -> None:
    feedback = ErrorFeedback()
    x = torch.ones(3, dtype=torch.float16)
    total = feedback.compensate("a", x)
    assert total.dtype == torch.float32 and torch.equal(total, torch.ones(3))
    total += 1
    assert torch.equal(x, torch.ones(3, dtype=torch.float16))
    feedback.store("a", torch.tensor([1.0, 2.0, 3.0]))
    total = feedback.compensate("a", x)
    assert total.dtype == torch.float32 and total.tolist() == [2.0, 3.0, 4.0]
    assert feedback.compensate("b", x).tolist() == [1.0] * 3
    assert torch.equal(x, torch.ones(3, dtype=torch.float16))


def test_another_shape_is_refused_until_reset() -> None:
    feedback = ErrorFeedback()
    feedback.store("a", torch.ones(2))
    with pytest.raises(FeedbackShapeError, match=r"\(2,\), its gradient \(3,\)"):
        feedback.compensate("a", torch.zeros(3))
    feedback.reset("a")
    assert feedback.compensate("a", torch.zeros(3)).tolist() == [0.0] * 3
    feedback.store("a", torch.ones(3))
    feedback.store("b", torch.ones(3))
    feedback.reset()
    assert len(feedback) == 0


def test_many_rounds_lose_nothing() -> None:
    """Sum of what was delivered + last residual = sum of the inputs; the mean error shrinks like 1 / rounds."""
    codec = ThcCodec(solve(4, 30, 1 / 32), job=1, worker=0, block=1024)
    feedback = ErrorFeedback()
    x = torch.randn(3000, generator=torch.Generator().manual_seed(1))
    x[17] = 40.0  # one value that is often clipped when rotated, which is biased without feedback
    delivered = torch.zeros(3000)
    rounds = 20
    for sequence in range(rounds):
        one = codec.begin(feedback.compensate(0, x), sequence, 0)
        words = one.encode(one.norms())
        delivered += one.decode(sum_words(codec.table, [words]), np.ones(len(words), np.int64))
        feedback.store(0, one.residual())
    left = feedback.compensate(0, torch.zeros(3000))
    assert torch.allclose(delivered + left, rounds * x, rtol=0, atol=2e-3)
    single_round_error = 0.02
    assert float(((delivered / rounds - x).norm() / x.norm()) ** 2) < single_round_error / 40


def test_residuals_follow_their_parameters() -> None:
    feedback = ParameterFeedback()
    feedback.store([("a", 2), ("b", 1)], torch.tensor([1.0, 2.0, 3.0]))
    feedback.store([("c", 2)], torch.tensor([4.0, 5.0]))
    regrouped = [("c", 2), ("b", 1)]
    bucket = torch.zeros(3)
    assert feedback.compensate(bucket, regrouped).tolist() == [4.0, 5.0, 3.0]
    assert not bucket.any(), "the bucket stays as it is"
    assert feedback.compensate(torch.zeros(0), []).shape == (0,)
    assert feedback.compensate(torch.full((2,), 10.0, dtype=torch.float16), [("a", 2)]).tolist() == [11.0, 12.0]
    feedback.store(regrouped, torch.tensor([7.0, 8.0, 9.0]))
    assert feedback.compensate(torch.zeros(5), [("a", 2), ("b", 1), ("c", 2)]).tolist() == [1.0, 2.0, 9.0, 7.0, 8.0]


def test_rebuilt_buckets_lose_nothing() -> None:
    """Input = output + residual over all rounds, parameter by parameter, through a change of buckets."""
    codec = ThcCodec(solve(4, 30, 1 / 32), job=1, worker=0, block=1024)
    feedback = ParameterFeedback()
    sizes = {"w1": 1500, "b1": 1, "w2": 700, "b2": 10}
    generator = torch.Generator().manual_seed(3)
    gradients = {name: torch.randn(size, generator=generator) for name, size in sizes.items()}
    delivered = {name: torch.zeros(size) for name, size in sizes.items()}
    first_grouping = [["b2", "w2", "b1", "w1"]]
    second_grouping = [["w1", "b1"], ["b2", "w2"]]
    for sequence, grouping in enumerate([first_grouping, second_grouping, second_grouping]):
        for bucket, names in enumerate(grouping):
            parts = [(name, sizes[name]) for name in names]
            total = feedback.compensate(torch.cat([gradients[name] for name in names]), parts)
            one = codec.begin(total, sequence, bucket)
            one.encode(one.norms())
            residual = one.residual()
            for name, piece in zip(names, torch.split(total - residual, [sizes[n] for n in names]), strict=True):
                delivered[name] += piece
            feedback.store(parts, residual)
    for name, size in sizes.items():
        left = feedback.compensate(torch.zeros(size), [(name, size)])
        assert left.any()
        assert torch.allclose(delivered[name] + left, 3 * gradients[name], rtol=0, atol=1e-4)


def test_changed_and_vanished_parameters_are_dropped() -> None:
    feedback = ParameterFeedback()
    feedback.store([("a", 2), ("b", 1)], torch.ones(3))
    assert feedback.compensate(torch.zeros(4), [("a", 3), ("b", 1)]).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert feedback.residual("a") is None
    feedback.keep_only(["a"])
    assert len(feedback) == 0
    feedback.store([("a", 2)], torch.ones(2))
    feedback.reset()
    assert feedback.compensate(torch.zeros(2), [("a", 2)]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("parts", [[("a", 2)], [("a", 2), ("b", 2)], []])
def test_parts_must_fill_the_bucket(parts: list[tuple[str, int]]) -> None:
    feedback = ParameterFeedback()
    with pytest.raises(FeedbackShapeError, match="its parameters need"):
        feedback.compensate(torch.zeros(3), parts)
    with pytest.raises(FeedbackShapeError, match="its parameters need"):
        feedback.store(parts, torch.zeros(3))


def test_a_parameter_comes_once() -> None:
    with pytest.raises(FeedbackShapeError, match="twice"):
        ParameterFeedback().compensate(torch.zeros(2), [("a", 1), ("a", 1)])
