# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training that goes on from a checkpoint in new processes, against training that was never cut."""

from __future__ import annotations

import contextlib
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import sumwire
import torch
from helpers.aggregator.served import every_op_mapping, serving
from helpers.dlcp.lanes import lane_mapping
from helpers.gloo import state_cases as cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import configs, run_workers
from sumwire.errors import UsageError
from torch import Tensor

CUT, END = 4, 8
OVER_A_GROUP: dict[str, dict[str, Any]] = {
    "ssgd": {},
    "thc": {},
    "topk": {"k": 0.1},
    "ef-sign": {},
    "powersgd": {"rank": 1, "start_iter": 2, "min_compression": 1.1},
    "acp": {"rank": 2, "min_compression": 1.0},
    "acp-thc": {"rank": 2, "min_compression": 1.0},
    "marsit-ring": {"global_lr": 0.01, "full_precision_every": 3},
    "marsit-torus": {"global_lr": 0.01, "full_precision_every": 3, "rows": 1},
    "cascade": {"stochastic": True},
}
OVER_A_SWITCH: dict[str, dict[str, Any]] = {
    "thc": {},
    "dlcp": {},
    "sum32": {},
    "acp": {"rank": 2, "min_compression": 1.0},
    "acp-thc": {"rank": 2, "min_compression": 1.0},
}

# The aggregator draws signs from a generator of its own, in the order of arrival: no two runs are alike.
DRAWN: dict[str, dict[str, Any]] = {
    "ef-sign": {},
    "marsit": {"global_lr": 0.01, "full_precision_every": 3},
}


def run(ranks: int, folder: Path, name: str, mapping: cases.Job, *case: Any) -> list[list[float]]:
    """What every rank returns, in processes that end afterwards, with an aggregator that does so too."""
    folder.mkdir()
    with contextlib.nullcontext() if mapping is None else serving(dict(mapping)), Ranks(ranks, folder) as started:
        return started.run(cases.train, name, mapping, *case)


def compare(tmp_path: Path, name: str, mapping: cases.Job, options: Mapping[str, Any], ddp: bool) -> None:
    store = str(tmp_path)
    whole = [
        run(2, tmp_path / f"whole{number}", name, mapping, options, ddp, (0, END), str(tmp_path / f"unused{number}"))
        for number in range(2)
    ]
    assert whole[0] == whole[1], "two runs without a cut differ"
    assert whole[0][0] == whole[0][1], "the replicas differ"
    before = run(2, tmp_path / "before", name, mapping, options, ddp, (0, CUT), store)
    assert before[0] != whole[0][0]
    after = run(2, tmp_path / "after", name, mapping, options, ddp, (CUT, END), store)
    assert after == whole[0]


@pytest.mark.parametrize("ddp", [False, True], ids=["plain", "ddp"])
@pytest.mark.parametrize("name", OVER_A_GROUP)
def test_over_a_group_it_goes_on_with_the_same_bits(tmp_path: Path, name: str, ddp: bool) -> None:
    compare(tmp_path, name, None, OVER_A_GROUP[name], ddp)


@pytest.mark.parametrize("ddp", [False, True], ids=["plain", "ddp"])
@pytest.mark.parametrize("name", OVER_A_SWITCH)
def test_over_a_switch_it_goes_on_with_the_same_bits(tmp_path: Path, name: str, ddp: bool) -> None:
    mapping = lane_mapping(2, 2) if name == "dlcp" else every_op_mapping(workers=2)
    compare(tmp_path, name, mapping, OVER_A_SWITCH[name], ddp)


@pytest.mark.parametrize("name", DRAWN)
def test_a_state_is_restored_bit_for_bit_where_the_switch_draws(tmp_path: Path, name: str) -> None:
    mapping, options = every_op_mapping(workers=2), DRAWN[name]
    run(2, tmp_path / "before", name, mapping, options, False, (0, CUT), str(tmp_path))
    (tmp_path / "after").mkdir()
    with serving(mapping), Ranks(2, tmp_path / "after") as ranks:
        assert ranks.run(cases.saved, name, mapping, options, str(tmp_path)) == [True, True]


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 3)])
def test_another_number_of_processes_divides_the_residuals(tmp_path: Path, before: int, after: int) -> None:
    outcomes = []
    for number in (before, after):
        (tmp_path / f"{number}").mkdir()
        with Ranks(number, tmp_path / f"{number}") as ranks:
            outcomes.append(ranks.run(cases.divided, "topk", {"k": 0.2}, str(tmp_path)))
    (old, _), (new, refused) = (zip(*outcome, strict=True) for outcome in outcomes)
    means = [torch.tensor(residuals).mean(0) for residuals in (old, new)]
    torch.testing.assert_close(means[0], means[1])
    assert float(means[0].norm()) > 1
    assert f"saved by {before} workers, loaded by worker {after - 1} of {after}" in refused[-1]
    assert "sumwire.checkpoint.read(path, name)" in refused[-1]


def test_what_is_refused(tmp_path: Path) -> None:
    with Ranks(1, tmp_path) as ranks:
        [said] = ranks.run(cases.refused)
    expected = (
        r"system thc: has no model yet, whose state it could be: attach it first",
        r"state of system topk over a group: must be one of system thc over a group: load it into what",
        r"cannot be pickled or copied, .* save its state_dict\(\)",
        r"DdpState: has no names of parameters to save: make it with model=",
        r"hook: has no names of parameters to save: attach the system to a model",
        r"state of parameter 0: p of shape \(40, 3\): must be \(40, 2\)",
    )
    for text, pattern in zip(said, expected, strict=True):
        assert re.search(pattern, text), text


def test_hooks_that_the_caller_registers_have_a_state(tmp_path: Path) -> None:
    with Ranks(2, tmp_path) as ranks:
        assert ranks.run(cases.hooks_of_callers) == [["thc: hook", "powersgd: hook"]] * 2


def test_ranks_keep_their_own_random_numbers(tmp_path: Path) -> None:
    with Ranks(2, tmp_path) as ranks:
        ranks.run(cases.streams)


def test_a_job_goes_on_with_its_residuals_and_its_random_numbers() -> None:
    def work(states: Mapping[int, Any], worker: int) -> tuple[list[Tensor], dict[str, Any]]:
        results = []
        with sumwire.Job(configs(mapping)[worker], block=1024, fallback="never") as job:
            if states:
                job.load_state_dict(states[worker])
            for step in range(2 if states else 4):
                if step == 2:
                    state = job.state_dict()
                tensor = cases.batch(worker, step + (2 if states else 0))[0].reshape(-1).clone()
                results.append(sumwire.all_reduce(tensor, job, feedback="weights"))
        return results, state if not states else {}

    mapping = every_op_mapping(workers=2)
    with serving(mapping):
        whole = run_workers(lambda worker: work({}, worker), 2)
    states = {worker: state for worker, (_, state) in enumerate(whole)}
    # One worker without dist has the entry of its number in the job.
    assert [list(state) for state in states.values()] == [["worker0"], ["worker1"]]
    with serving(mapping):
        resumed = run_workers(lambda worker: work(states, worker), 2)
    for (before, _), (after, _) in zip(whole, resumed, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(before[2:], after, strict=True))
    with pytest.raises(UsageError, match="Job: cannot be pickled"), serving(mapping):
        run_workers(lambda worker: pickled(mapping, worker), 1)


def pickled(mapping: dict[str, Any], worker: int) -> bytes:
    with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
        return pickle.dumps(job)
