# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`torchrun --max-restarts 3` on every host; one rank is killed at a random step."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from sumwire_lab.life.case import Case
from sumwire_lab.life.rows.account import account
from sumwire_lab.life.trainee import TraineeSpec
from sumwire_lab.life.world import Training, World, open_world
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.system.processes import killed_after, wait_all

NAME: Final = "torchrun"
WHOLE: Final = "undisturbed"
"""Variant without a kill, for the accuracy to compare with."""
RESTARTS: Final = 3
STEPS: Final = 140
SAVE_EVERY: Final = 10
TRAIN: Final = TrainOptions(hidden=128, batch=32)
_PACE_S: Final = 0.02
_LIMIT_S: Final = 300.0
_TRAIN_S: Final = 240.0
_RENDEZVOUS_PORT: Final = 29400
# Otherwise torch 2.13 gives restarted ranks the store of the earlier attempt, in which gloo finds the addresses of dead
# processes and waits for them.
_VARIABLES: Final = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}


def cases(switch: str, seeds: int) -> list[Case]:
    """One undisturbed training, and one for each seed."""
    killed = [Case(NAME, switch, seed, _LIMIT_S) for seed in range(1, seeds + 1)]
    return [Case(NAME, switch, 1, _LIMIT_S, WHOLE), *killed]


def carry_out(case: Case, folder: Path) -> dict[str, Any]:
    """The account of the training, and how often each rank was started."""
    draw = random.Random(case.name)
    with open_world(case, folder) as world:
        given = {"steps": STEPS, "pace_s": _PACE_S, "train": TRAIN, "save_every": SAVE_EVERY}
        spec = world.spec("train", "thc", **given)
        training = Training(spec, [])
        victim, step = draw.randrange(spec.workers), draw.randrange(5, STEPS - 20)
        killed: list[int] = []

        def tick() -> None:
            if case.variant != WHOLE and not killed and training.steps()[victim] >= step:
                os.kill(_pid(training, victim), signal.SIGKILL)
                killed.append(step)

        _torchrun(world, spec, tick)
        starts = [sum(line["kind"] == "start" for line in training.lines(rank)) for rank in range(spec.workers)]
        return {"killed": killed, "victim": victim, "starts": starts, **account(training)}


def _pid(training: Training, rank: int) -> int:
    return int([line["pid"] for line in training.lines(rank) if line["kind"] == "start"][-1])


def _torchrun(world: World, spec: TraineeSpec, tick: Any) -> None:
    """Run an agent on every host until all have ended."""
    path = Path(spec.folder) / "spec.json"
    spec.save(path)
    agents: dict[str, subprocess.Popen[bytes]]
    with killed_after() as agents:
        for rank, host in enumerate(world.session.fabric.hosts):
            command = [sys.executable, "-m", "torch.distributed.run", *_options(world, rank)]
            command += ["-m", "sumwire_lab.life.trainee", str(path)]
            agents[f"agent{rank}"] = world.session.start(f"agent{rank}", host, command, **_VARIABLES)
        wait_all(agents, world.session.serving(), world.session.logs(agents), _TRAIN_S, tick)


def _options(world: World, rank: int) -> list[str]:
    """Ranks follow from the agents' addresses, which they keep: so a restarted rank is the same worker of the job."""
    return [
        f"--nnodes={world.workers}",
        "--nproc-per-node=1",
        f"--max-restarts={RESTARTS}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={world.group.addresses[0]}:{_RENDEZVOUS_PORT}",
        "--rdzv-id=life",
        f"--rdzv-conf=is_host={str(rank == 0).lower()}",
        f"--local-addr={world.group.addresses[rank]}",
    ]
