# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Entries of workers: what they hold, what is refused, and how another number of workers divides residuals."""

from __future__ import annotations

import copy
import functools
import io
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
import sumwire
import torch
from sumwire.checkpoint import Content, Place, owner_of, packed, unpacked
from sumwire.codec.feedback import ErrorFeedback, ParameterFeedback
from sumwire.errors import UsageError


def content(worker: int, **more: Any) -> Content:
    residuals = {"flat": torch.full((3,), worker + 1.0), "by name": {"a": torch.tensor([10.0 * worker])}}
    return Content(residuals, {"round": 7, "worker": worker, **more})


def saved(workers: int) -> dict[str, Any]:
    """The entries of all workers."""
    found: dict[str, Any] = {}
    for worker in range(workers):
        found |= packed("thing", Place(worker, workers), content(worker))
    return found


def test_an_entry_is_plain_and_a_copy() -> None:
    source = content(2, big=2**127, tuple=(1, (2.5, None)), momentum=[torch.ones(2)])
    entry = packed("thing", Place(2, 4), source)
    assert list(entry) == ["worker2"]
    file = io.BytesIO()
    torch.save(entry, file)
    file.seek(0)
    source.residuals["flat"].zero_()
    loaded = unpacked("thing", Place(2, 4), torch.load(file, weights_only=True))
    assert loaded.residuals["flat"].tolist() == [3, 3, 3]
    assert loaded.rest["big"] == 2**127
    assert loaded.rest["tuple"] == (1, (2.5, None))
    again = unpacked("thing", Place(2, 4), entry)
    again.residuals["flat"].zero_()
    assert unpacked("thing", Place(2, 4), entry).residuals["flat"].tolist() == [3, 3, 3]


def test_a_worker_takes_its_own_entry_of_many() -> None:
    assert unpacked("thing", Place(1, 3), saved(3)).rest == {"round": 7, "worker": 1}


@pytest.mark.parametrize(("before", "after"), [(4, 2), (4, 8), (3, 2), (2, 3), (1, 4), (4, 1)])
def test_another_number_of_workers_keeps_the_mean_of_residuals(before: int, after: int) -> None:
    shares = [unpacked("thing", Place(worker, after), saved(before)) for worker in range(after)]
    mean = torch.stack([share.residuals["flat"] for share in shares]).mean(0)
    torch.testing.assert_close(mean, torch.full((3,), (before + 1) / 2))
    named = torch.stack([share.residuals["by name"]["a"] for share in shares]).mean(0)
    torch.testing.assert_close(named, torch.tensor([10.0 * (before - 1) / 2]))
    assert [share.rest["worker"] for share in shares] == [worker % before for worker in range(after)]


def test_the_example_of_the_module() -> None:
    halves = [unpacked("thing", Place(worker, 2), saved(4)).residuals["flat"][0] for worker in range(2)]
    assert halves == [2, 3]
    doubled = [unpacked("thing", Place(worker, 8), saved(4)).residuals["flat"][0] for worker in range(8)]
    assert doubled == [2, 4, 6, 8, 0, 0, 0, 0]


def test_a_residual_that_some_workers_lack_counts_as_zero() -> None:
    entries: dict[str, Any] = {}
    for worker, residuals in enumerate([{"a": torch.ones(1), "c": None}, {"b": torch.ones(1), "c": torch.ones(1)}]):
        entries |= packed("thing", Place(worker, 2), Content(residuals))
    shares = [unpacked("thing", Place(worker, 3), entries).residuals for worker in range(3)]
    assert [sorted(name for name, one in share.items() if one is not None) for share in shares] == [
        ["a"],
        ["b", "c"],
        ["a"],
    ]
    assert shares[0]["a"] == 1.5
    assert shares[2]["a"] == 0


@pytest.mark.parametrize("after", [1, 2, 3, 4, 6])
def test_ranks_of_nodes_go_on_as_other_numbers_of_ranks(after: int) -> None:
    """Of the four saving ranks, 0 and 2 were workers."""
    entries: dict[str, Any] = {}
    for rank in range(4):
        parts = {"hook": Content({"a": torch.ones(1)} if rank % 2 == 0 else {}, {"scale": 1.0})}
        if rank % 2 == 0:
            parts["job"] = Content({"feedback": {"a": torch.ones(1)}}, {"operations": 7})
        entries |= packed("thing", Place(rank, 4), Content.joined(parts))
    shares = [unpacked("thing", Place(rank, after), entries) for rank in range(after)]
    assert [share.part("job", "here").rest for share in shares] == [{"operations": 7}] * after
    residuals = [share.part("job", "here").residuals["feedback"]["a"] for share in shares]
    assert sum(residuals) / after == 0.5


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "no worker's entry in it: must be what state_dict"),
        ({"worker0": 3}, "worker0: must be what state_dict"),
        (packed("other", Place(0, 2), Content()), "state of other: must be one of thing: load it into"),
        (packed("thing", Place(0, 2), Content()), r"needs its own, has workers \[0\], not \[1\]: load the files"),
        (packed("thing", Place(1, 4), Content()), r"needs those of all workers that saved, has workers \[1\], not \[0"),
        ({**saved(2), **packed("thing", Place(1, 3), Content())}, "of several checkpoints: load those of one"),
        ({"worker1": (2, {})}, "version 2: must be 1: load it with the release"),
    ],
)
def test_what_is_refused(entries: Mapping[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        unpacked("thing", Place(1, 2), entries)


def test_the_owner_of_a_reduction_is_found_behind_wrappers() -> None:
    feedback = ErrorFeedback()

    @functools.wraps(feedback.compensate)
    def scaled(*arguments: Any) -> Any:
        return feedback.compensate(*arguments)

    assert owner_of(feedback) is feedback
    assert owner_of(feedback.compensate) is feedback
    assert owner_of(functools.partial(scaled, "key")) is feedback
    assert owner_of(lambda x: x) is None
    assert owner_of(len) is None


def test_residuals_by_key_go_on() -> None:
    feedback, other = ErrorFeedback(), ErrorFeedback()
    for key in ("a", 3, ("b", 1)):
        feedback.store(key, torch.ones(2))
    other.store("gone", torch.ones(5))
    other.load_state_dict(feedback.state_dict())
    assert len(other) == 3
    assert other.compensate(("b", 1), torch.ones(2)).tolist() == [2, 2]
    assert feedback.compensate("gone", torch.ones(1)).tolist() == [1]
    feedback.store(object(), torch.ones(1))
    with pytest.raises(UsageError, match=r"key of type object: .*use such keys"):
        feedback.state_dict()


def test_residuals_by_parameter_go_on() -> None:
    feedback, other = ParameterFeedback(), ParameterFeedback()
    feedback.store(((1, 2), (0, 1)), torch.arange(3.0))
    other.load_state_dict(feedback.state_dict())
    assert other.compensate(torch.zeros(3), ((0, 1), (1, 2))).tolist() == [2, 0, 1]


def test_a_hook_is_not_pickled_and_says_what_to_save() -> None:
    state = sumwire.DdpState(None, reduce=lambda x, number: (x, lambda: x))
    with pytest.raises(UsageError, match=r"DdpState: cannot be pickled or copied.*save its state_dict\(\)"):
        pickle.dumps(state)
    assert copy.deepcopy(state) is state, "AveragedModel copies the model with its hook"
