# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of a step of a sharded training, by gloo and through the network, in turn.

Nodes with several ranks each train the character transformer by FSDP2. With replicas the shards stay within a node
(HSDP); without, all ranks have shards. gloo's nodes are connected by kernel bridges, which cost almost nothing, and
have their offloads. The same links carry Sumwire's packets to a P4 switch, or to an aggregator on a server. Parameters
may be gathered with 8 bits, by either.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire_lab.bench.exchanges import run_workers
from sumwire_lab.errors import LabError
from sumwire_lab.experiments.sharded_worker import GLOO, ROUNDED, SUMWIRE
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.options.tasks import TEXT
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder

MBIT: Final = 100.0
NODES: Final = 4
RANKS: Final = 2
# Of a rank's sample in a step. All ranks share the processors of one machine: computing is not what is measured.
CHARACTERS: Final = 8
# 6,013,537 parameters. In narrower models, whose gradients need less time, other parts of a step weigh more.
WIDTH: Final = 2 * TEXT.hidden
NARROW: Final = TEXT.hidden
STEPS: Final = 4
_MODULE: Final = "sumwire_lab.experiments.sharded_worker"
SYSTEMS: Final = (GLOO, SUMWIRE)
WITH_ROUNDED: Final = (*SYSTEMS, *ROUNDED.values())


@dataclass(frozen=True)
class Sharded:
    """``parameters``: of the model. ``seconds``: by system, of each turn: the median over its steps of the slowest
    rank. ``cpu_s``: CPU seconds of all ranks in a step. ``losses``: of the last step, the mean over the ranks.
    ``equal``: whether all ranks had the same parameters at each end."""

    parameters: int
    seconds: dict[str, list[float]]
    cpu_s: dict[str, list[float]]
    losses: dict[str, list[float]]
    equal: bool

    def ratio(self, slow: str = GLOO, fast: str = SUMWIRE) -> float:
        """Seconds of a step by one system over those by another: medians over the turns."""
        return median(self.seconds[slow]) / median(self.seconds[fast])


@dataclass(frozen=True)
class Training:
    """``replicas``: shards stay within the nodes. ``width``: of the model. ``steps``: that count, in each turn.
    ``systems``: that train in turn."""

    replicas: bool
    width: int = WIDTH
    steps: int = STEPS
    switch: str = "soft"
    systems: tuple[str, ...] = SYSTEMS


def run_sharded(results: Path, say: Say, training: Training, *, turns: int) -> Sharded:
    """Train by all systems, in turn. Raises LabError, also if a job has fallen back."""
    require_tools()
    folder = new_folder(results, latest=False)
    seconds: dict[str, list[float]] = {system: [] for system in training.systems}
    cpu_s: dict[str, list[float]] = {system: [] for system in training.systems}
    losses: dict[str, list[float]] = {system: [] for system in training.systems}
    equal, parameters = True, 0
    with interruptible():
        for turn in range(turns):
            for system in training.systems:
                ranks = _train(system, training, folder / f"{system.replace(', ', '-').replace(' ', '-')}{turn}")
                parameters = ranks[0]["parameters"]
                seconds[system].append(median(map(max, zip(*(rank["seconds"] for rank in ranks), strict=True))))
                cpu_s[system].append(sum(rank["cpu_s"] for rank in ranks))
                losses[system].append(sum(rank["loss"] for rank in ranks) / len(ranks))
                equal = equal and len({rank["digest"] for rank in ranks}) == 1
                say(f"{system}: {seconds[system][-1]:.3f} s a step")
    outcome = Sharded(parameters, seconds, cpu_s, losses, equal)
    (folder / "sharded.json").write_text(json.dumps(vars(outcome)) + "\n")
    return outcome


def _train(system: str, training: Training, folder: Path) -> list[dict[str, Any]]:
    """What every rank has measured."""
    options = RunOptions(workers=NODES, switch=training.switch, link=LinkOptions(MBIT))
    with open_session(options, training.switch if system in (SUMWIRE, ROUNDED[SUMWIRE]) else None, folder) as session:
        more = {
            "ranks": RANKS, "replicas": training.replicas, "repeats": training.steps, "width": training.width,
            "characters": CHARACTERS,
        }  # fmt: skip
        nodes = run_workers(session, _MODULE, system, [], **more)
    ranks: list[dict[str, Any]] = nodes[0] if nodes else []  # type: ignore[assignment]
    if len(ranks) != NODES * RANKS or any(rank.get("fallbacks") for rank in ranks):
        raise LabError(f"{system}: some rank has not trained through the network; see {folder}")
    return ranks
