# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trainings that go on after an interruption: under `torchrun --max-restarts 3` with one rank killed at a random step;
from a checkpoint after half the steps, in new processes; and over steps whose fp16 gradients overflow on one rank or on
all."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from nativelib import programs

from sumwire_lab.faults import training_worker
from sumwire_lab.faults.cases import FaultCase
from sumwire_lab.faults.programs import wait_ended
from sumwire_lab.faults.testbed import WORKERS, FaultTestbed, RunningTraining, account, open_testbed
from sumwire_lab.faults.training_worker import Overflow, RankTrainingSpec
from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.study.workers import CHILD
from sumwire_lab.system.processes import killed_after, wait_all

TORCHRUN_ROW: Final = "torchrun"
WHOLE: Final = "undisturbed"
"""Variant without a kill, for the accuracy to compare with."""
RESTARTS: Final = 3
RESTARTED_STEPS: Final = 140
SAVE_EVERY: Final = 10
RESTARTED: Final = TrainOptions(hidden=128, batch=32)
_PACE_S: Final = 0.02
_RESTART_LIMIT_S: Final = 300.0
_RESTART_TRAIN_S: Final = 240.0
_RENDEZVOUS_PORT: Final = 29400
# Otherwise torch 2.13 gives restarted ranks the store of the earlier attempt, in which gloo finds the addresses of dead
# processes and waits for them.
_VARIABLES: Final = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}


def restart_cases(switch: str, seeds: int) -> list[FaultCase]:
    """Return one undisturbed training, and one for each seed."""
    killed = [FaultCase(TORCHRUN_ROW, switch, seed, _RESTART_LIMIT_S) for seed in range(1, seeds + 1)]
    return [FaultCase(TORCHRUN_ROW, switch, 1, _RESTART_LIMIT_S, WHOLE), *killed]


def carry_out_restart(case: FaultCase, folder: Path) -> dict[str, Any]:
    """Return the account of the training, and how often each rank was started."""
    draw = random.Random(case.name)
    with open_testbed(case, folder) as testbed:
        spec = RankTrainingSpec(
            "thc", True, steps=RESTARTED_STEPS, pace_s=_PACE_S, train=RESTARTED, save_every=SAVE_EVERY
        )
        training = RunningTraining(spec, testbed.folder / "train", testbed.workers, [])
        victim, step = draw.randrange(testbed.workers), draw.randrange(5, RESTARTED_STEPS - 20)
        killed: list[int] = []

        def tick() -> None:
            if case.variant != WHOLE and not killed and training.steps()[victim] >= step:
                os.kill(_pid(training, victim), signal.SIGKILL)
                killed.append(step)

        _torchrun(testbed, spec, tick)
        starts = [sum(line["kind"] == "start" for line in training.lines(rank)) for rank in range(testbed.workers)]
        return {"killed": killed, "victim": victim, "starts": starts, **account(training)}


def _pid(training: RunningTraining, rank: int) -> int:
    return int([line["pid"] for line in training.lines(rank) if line["kind"] == "start"][-1])


def _torchrun(testbed: FaultTestbed, spec: RankTrainingSpec, tick: Any) -> None:
    """Run an agent on every host until all have ended."""
    path = testbed.saved("train", training_worker.train, spec)
    agents: dict[str, subprocess.Popen[bytes]]
    with killed_after() as agents:
        for rank, host in enumerate(testbed.session.fabric.hosts):
            command = programs.starter("torch.distributed.run", *_options(testbed, rank))
            command += ["-m", CHILD, str(path)]
            agents[f"agent{rank}"] = testbed.session.start(f"agent{rank}", host, command, **_VARIABLES)
        wait_all(agents, testbed.session.serving(), testbed.session.logs(agents), _RESTART_TRAIN_S, tick)


def _options(testbed: FaultTestbed, rank: int) -> list[str]:
    """Ranks follow from the agents' addresses, which they keep: so a restarted rank is the same worker of the job."""
    return [
        f"--nnodes={testbed.workers}",
        "--nproc-per-node=1",
        f"--max-restarts={RESTARTS}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={testbed.group.addresses[0]}:{_RENDEZVOUS_PORT}",
        "--rdzv-id=life",
        f"--rdzv-conf=is_host={str(rank == 0).lower()}",
        f"--local-addr={testbed.group.addresses[rank]}",
    ]


CHECKPOINT_ROW: Final = "checkpoint"
SAVED_SYSTEMS: Final = ("thc", "dlcp", "acp", "marsit-ring", "ef-sign", "ef-sign@group")
"""Systems whose trainings can be repeated to the bit."""
DRAWN: Final = ("marsit",)
"""Through a switch, which draws signs at random: no two trainings are equal, so only the state is compared."""
SAVED_STEPS: Final = 30
LANED: Final = LanedOptions(loss_bound=0.0)
_CHECKPOINT_LIMIT_S: Final = 180.0
_HALF_TRAIN_S: Final = 60.0


def checkpoint_cases(switch: str, seeds: int) -> list[FaultCase]:
    """Return one case of each system; this row has no seeds."""
    return [FaultCase(CHECKPOINT_ROW, switch, 1, _CHECKPOINT_LIMIT_S, system) for system in (*SAVED_SYSTEMS, *DRAWN)]


def carry_out_checkpoint(case: FaultCase, folder: Path) -> dict[str, Any]:
    """Return the accounts of the trainings: the `whole` one, its `first` and its `second` half.

    `half`: the steps of the first half. `starts`: the first lines of the ranks.
    """
    laned = parse(case.variant).recipe.laned

    def jobs(fabric: Fabric) -> list[dict[str, Any]]:
        recipe = parse(case.variant).recipe
        return control_plane.laned_job(fabric, LANED, recipe) if laned else control_plane.training_job(fabric)

    with open_testbed(case, folder, jobs) as testbed:
        return halves(testbed, case.variant, SAVED_STEPS)


def halves(testbed: FaultTestbed, system: str, steps: int) -> dict[str, Any]:
    """Train in two halves, as `carry_out` says. The first has half of the steps."""
    kept = testbed.folder / "kept"
    kept.mkdir()
    return {
        "half": steps // 2,
        "whole": _train_part(testbed, "whole", system, steps, {}),
        "first": _train_part(testbed, "first", system, steps, {"checkpoint": str(kept), "save_after": steps // 2}),
        "second": _train_part(testbed, "second", system, steps, {"checkpoint": str(kept)}),
    }


def _train_part(testbed: FaultTestbed, name: str, system: str, steps: int, given: dict[str, Any]) -> dict[str, Any]:
    training = testbed.train(name, RankTrainingSpec(system, steps=steps, **given))
    wait_ended(training.programs, _HALF_TRAIN_S)
    starts = [training.lines(rank)[0] for rank in range(testbed.workers)]
    return {**account(training), "starts": starts}


OVERFLOW_ROW: Final = "overflow"
ONE, ALL = "one", "all"
"""Variants: the gradients of one rank overflow, or those of all ranks."""
SYSTEM, BASELINE = "thc", "gloo"
AT: Final = (20, 21, 70)
"""Steps at which gradients overflow; two of them in a row."""
OVERFLOW_STEPS: Final = 200
OVERFLOWING: Final = TrainOptions(hidden=128, batch=32)
_OVERFLOW_LIMIT_S: Final = 300.0
_OVERFLOW_TRAIN_S: Final = 120.0


def overflow_cases(switch: str, seeds: int) -> list[FaultCase]:
    """Return one case of each variant; this row has no seeds."""
    return [FaultCase(OVERFLOW_ROW, switch, 1, _OVERFLOW_LIMIT_S, variant) for variant in (ONE, ALL)]


def carry_out_overflow(case: FaultCase, folder: Path) -> dict[str, Any]:
    """Return the account of the training and its overflows, by system."""
    ranks = list(range(WORKERS)) if case.variant == ALL else [1]
    done: dict[str, Any] = {}
    with open_testbed(case, folder) as testbed:
        for system in (BASELINE, SYSTEM):
            done[system] = train_overflowing(testbed, system, ranks, OVERFLOW_STEPS, AT)
    return done


def train_overflowing(
    testbed: FaultTestbed, system: str, ranks: Sequence[int], steps: int, at: Sequence[int]
) -> dict[str, Any]:
    """Return the account of one training, and its overflows."""
    overflow = Overflow(list(at), list(ranks))
    spec = RankTrainingSpec(system, steps=steps, overflow=overflow, train=OVERFLOWING)
    training = testbed.train(f"overflow-{system}", spec)
    wait_ended(training.programs, _OVERFLOW_TRAIN_S)
    return {**account(training), "overflows": _overflows(training, at)}


def _overflows(training: RunningTraining, at: Sequence[int]) -> list[dict[str, Any]]:
    """Return one entry for each rank and overflow: whether the step left the parameters unchanged, and the factor by
    which the scale changed."""
    found = []
    for rank in range(training.workers):
        after = {line["step"]: line for line in training.lines(rank) if line["kind"] == "step"}
        for step in at:
            before, then = after[step], after[step + 1]
            skipped = before["digest"] == then["digest"]
            found.append({"rank": rank, "step": step, "skipped": skipped, "factor": then["scale"] / before["scale"]})
    return found
