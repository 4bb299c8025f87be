# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trees of aggregators: an aggregator is a worker of the next one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.aggregator.served import serving_tree, tree_mapping
from helpers.gloo import control_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import SILENCE_S, configs, run_workers
from helpers.waiting import until
from sumwire.config import JobConfig
from sumwire_protocol import constants as p4
from torch import Tensor

TWO_LEAVES = ((0, 0, 1, 1), (0, 0))
KEY = bytes(range(32))


def two_leaves(slots: int = 64) -> list[JobConfig]:
    """Workers 0 and 1 at the first leaf, 2 and 3 at the second."""
    return configs(tree_mapping((1, 1, 2, 2), (0, 0), slots))


def three_levels() -> list[JobConfig]:
    """Two workers at a leaf, one in the middle, one at the root; with a key."""
    jobs = configs(tree_mapping((2, 2, 1, 0), (0, 1)))
    return [replace(job, key=KEY) for job in jobs]


def reduced(config: JobConfig, x: Tensor) -> dict[str, Any]:
    """Every op once."""
    numbers = (x[:2000] * 1000).int().numpy()
    with sumwire.Job(config, fallback="never", deadline_s=30.0) as job:
        mean, _ = job.reduce(x)
        return {
            "thc": mean,
            "sum32": job.sum32(numbers),
            "max32": job.max32(numbers.view(np.uint32)),
            "min32": job.min32(numbers.view(np.uint32)),
            "vote": job.vote(x >= 0),
            "sign": job.sign_merge(x >= 0),
        }


def check(results: list[dict[str, Any]], xs: list[Tensor]) -> None:
    """That all sums are right, and all workers have the same."""
    stacked, first = torch.stack(xs), results[0]
    for other in results[1:]:
        assert all(bool((first[name] == other[name]).all()) for name in first)
    numbers = (stacked[:, :2000] * 1000).int().numpy()
    assert np.array_equal(first["sum32"], numbers.sum(0))
    assert np.array_equal(first["max32"], numbers.view(np.uint32).max(0))
    assert np.array_equal(first["min32"], numbers.view(np.uint32).min(0))
    mean, plus = stacked.mean(0), (stacked >= 0).double().mean(0)
    assert float((first["thc"] - mean).square().sum() / mean.square().sum()) < 0.03
    assert torch.equal(first["vote"], (stacked >= 0).sum(0) >= len(xs) / 2)
    signs = first["sign"].double()
    assert bool(signs[plus == 1].all()) and not bool(signs[plus == 0].any())
    # Drawn with the weights of the partial results: right on average, within five standard deviations.
    assert abs(float(signs.mean() - plus.mean())) < 5 * 0.5 / len(signs) ** 0.5


def gradients(workers: int = 4) -> list[Tensor]:
    torch.manual_seed(1)
    common = torch.randn(6_000)
    return [common + 0.5 * torch.randn(6_000) for _ in range(workers)]


@pytest.mark.parametrize(("jobs", "loss"), [(two_leaves, 0.02), (three_levels, 0.0)], ids=["lossy", "keyed"])
def test_every_op_is_summed_over_all_workers(form: str, jobs: Any, loss: float) -> None:
    each, xs = jobs(), gradients()
    with serving_tree(each[0], loss) as tree:
        check(run_workers(lambda worker: reduced(each[worker], xs[worker]), 4), xs)
        root = tree.states[tree.root]
        # It has had one contribution from each seat, not from each worker.
        assert int(root.verdicts[p4.VERDICT_LAST]) == int(root.verdicts[p4.VERDICT_FIRST]) > 20
        assert int(root.verdicts[p4.VERDICT_ADD]) == 0
        assert sum(int(state.verdicts[p4.VERDICT_REJECT]) for state in tree.states.values()) == 0
        if loss:
            asked = sum(int(tree.states[name].verdicts[p4.VERDICT_ASK]) for name in tree.names[1:])
            assert asked > 0


def test_a_root_that_was_started_again_empties_its_leaves() -> None:
    """They learn its generation, and the next run is as the first."""
    each, xs = two_leaves(), gradients()
    with serving_tree(each[0]) as tree:
        check(run_workers(lambda worker: reduced(each[worker], xs[worker]), 4), xs)
        leaf = tree.states[tree.names[1]]
        before = int(leaf.jobs["generation"][0])
        assert {int(state.jobs["generation"][0]) for state in tree.states.values()} == {before}
        tree.end(tree.root)
        tree.start(tree.root)
        after = int(tree.states[tree.root].jobs["generation"][0])
        assert after != before
        for name in tree.names[1:]:
            until(lambda name=name: int(tree.states[name].jobs["generation"][0]) == after)
            assert not tree.states[name].slots["used"].any()
            assert int(tree.states[name].shared.runs["token"][0]) == 0
        check(run_workers(lambda worker: reduced(each[worker], xs[worker]), 4), xs)


@pytest.mark.parametrize("lost", ["leaf", "root"])
def test_workers_say_which_aggregator_is_gone(lost: str) -> None:
    """Those of a leaf that is gone have lost it. Those of the other one miss the workers behind it."""
    each = two_leaves()
    with serving_tree(each[0]) as tree:

        def work(worker: int) -> sumwire.SumwireError | None:
            with sumwire.Job(each[worker], fallback="never", deadline_s=1.5, silence_s=SILENCE_S) as job:
                job.mean(torch.ones(1000))
                if worker == 0:
                    tree.end(tree.names[1] if lost == "leaf" else tree.root)
                try:
                    for _ in range(1000):
                        job.mean(torch.ones(1000))
                except sumwire.SumwireError as error:
                    return error
                return None

        own, other, *behind = run_workers(work, 4)
    assert all(isinstance(error, sumwire.SwitchLostError) for error in (own, other))
    if lost == "leaf":
        assert all("does not answer" in str(error) and tree.names[1] in str(error) for error in (own, other))
        assert all("2 are missing behind other switches" in str(error) for error in behind)
    else:
        assert all(isinstance(error, sumwire.SwitchLostError) for error in behind)


# -- fall-back with a process group --------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with Ranks(3, Path(tmp_path_factory.mktemp("ranks"))) as started:
        yield started


def hear_questions(address: str, count: int) -> None:
    """Take the place of an aggregator that is gone, and answer nothing, until so many HELLOs have come there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind((address, model.UDP_PORT))
        udp.settimeout(60)
        while count:
            packet = model.decode(udp.recv(2048))
            count -= packet.kind == model.PROBE and packet.op == model.NO_OP


@pytest.mark.parametrize("lost", ["root", "root at once", "leaf", "leaf at once"])
def test_fall_back_with_a_process_group_in_a_tree(ranks: Ranks, lost: str) -> None:
    """Ranks 0 and 1 are at one leaf, rank 2 at the other. All go on by gloo, and return to the tree that is whole
    again. An aggregator that is started again at once has forgotten the run."""
    mapping = tree_mapping((1, 1, 2), (0, 0), 8)
    with serving_tree(configs(mapping)[0]) as tree:
        ranks.begin(control_cases.until_returned, mapping, 3, {})
        until(lambda: int(tree.states[tree.root].verdicts[p4.VERDICT_LAST]) > 60)
        name = tree.root if "root" in lost else tree.names[1]
        tree.end(name)
        if "at once" not in lost:
            hear_questions(name, 6)
        tree.start(name)
        outcomes = ranks.outcomes()
    for outcome in outcomes:
        assert outcome["error"] == ""
        assert outcome["results"] == outcomes[0]["results"]
        assert outcome["changes"] == outcomes[0]["changes"]
        fallen, returned = outcome["changes"][0], outcome["changes"][-1]
        assert (fallen.kind, returned.kind) == ("fallback", "return")
        # A leaf notices within two seconds that the root is gone. Until then ranks may try to return.
        assert len(outcome["changes"]) <= (4 if "root" in lost else 2)
        # Where it came back at once the ranks may have returned before any sum went by gloo.
        assert outcome["stats"]["fallback_operations"] >= ("at once" not in lost)
