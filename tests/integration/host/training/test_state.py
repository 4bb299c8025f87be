# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training that goes on from a checkpoint in new processes, against training that was never cut."""

from __future__ import annotations

import contextlib
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sumwire
import torch
from helpers.aggregator.served import every_op_mapping, serving
from helpers.dlcp.fake_jobs import lane_mapping
from helpers.gloo import state_cases as cases
from helpers.gloo.ranks import Ranks
from helpers.gloo.systems_cases import OVER_A_SWITCH, SYSTEMS
from helpers.transport.udp_bridge import configs, run_workers
from sumwire.errors import UsageError
from torch import Tensor

RANKS = 2
CUT, END = 4, 8
OVER_A_GROUP: dict[str, dict[str, Any]] = {
    **{name: options for name, options in SYSTEMS.items() if name not in ("fp16", "bf16", "thc-uniform", "vote")},
    "marsit-torus": {**SYSTEMS["marsit-torus"], "rows": 1},
    "dlcp-ring": {"loss_bound": 0.0},
}
OVER_SWITCHES = {name: OVER_A_SWITCH[name] for name in ("thc", "sum32", "acp", "acp-thc")} | {"dlcp": {}}
# The aggregator draws signs from a generator of its own, in the order of arrival: no two runs are alike.
DRAWN = ("ef-sign", "marsit")

# (system, over a switch, within DDP)
Case = tuple[str, bool, bool]
CASES: list[Case] = [
    (name, switch, ddp)
    for switch, names in ((False, OVER_A_GROUP), (True, OVER_SWITCHES))
    for name in names
    for ddp in (False, True)
]
# Steps of each phase, and the folder of its checkpoint.
PHASES = {
    "whole": (0, END, "unused"),
    "before": (0, CUT, "kept"),
    "after": (CUT, END, "kept"),
}


def job_of(name: str) -> dict[str, Any]:
    return lane_mapping(2, 2) if name == "dlcp" else every_op_mapping(workers=2)


def run(ranks: Ranks, case: Case, first: int, last: int, folder: Path) -> list[list[float]]:
    """What every rank returns, with an aggregator of the case's own."""
    name, switch, ddp = case
    mapping = job_of(name) if switch else None
    options = (OVER_SWITCHES if switch else OVER_A_GROUP)[name]
    with contextlib.nullcontext() if mapping is None else serving(mapping):
        return ranks.run(cases.train, name, mapping, options, ddp, (first, last), str(folder))


@pytest.fixture(scope="module")
def phases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ranks]]:
    """Processes of each phase: what goes on from a checkpoint has nothing else of the run that left it."""
    with contextlib.ExitStack() as stack:
        yield {phase: stack.enter_context(Ranks(2, tmp_path_factory.mktemp(phase))) for phase in PHASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
@pytest.mark.few(12)
def test_training_goes_on_with_the_same_bits(phases: dict[str, Ranks], tmp_path: Path, case: Case) -> None:
    """Which two runs without a cut do as well, or this one could not."""
    trained = {
        phase: run(phases[phase], case, first, last, tmp_path / kept) for phase, (first, last, kept) in PHASES.items()
    }
    whole = trained["whole"]
    assert whole[0] == whole[1], "the replicas differ"
    assert trained["before"] != whole
    assert trained["after"] == whole


@pytest.mark.parametrize("name", DRAWN)
def test_a_state_is_restored_bit_for_bit_where_the_switch_draws(tmp_path: Path, name: str) -> None:
    mapping, options = every_op_mapping(workers=2), OVER_A_SWITCH[name]
    for phase in ("before", "after"):
        (tmp_path / phase).mkdir()
    with serving(mapping), Ranks(2, tmp_path / "before") as ranks:
        ranks.run(cases.train, name, mapping, options, False, (0, CUT), str(tmp_path))
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


def test_hooks_that_the_caller_registers_have_a_state(ranks: Ranks) -> None:
    assert ranks.run(cases.hooks_of_callers) == [["thc: hook", "powersgd: hook"]] * RANKS


def test_ranks_keep_their_own_random_numbers(ranks: Ranks) -> None:
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
