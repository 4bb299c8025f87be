# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire.init(system="auto")`: the system that `sumwire pays` recommends, for this training's ranks.

    system = sumwire.init(system="auto", model=model)
    optimizer = system.attach(DistributedDataParallel(model), optimizer)

It takes some ten seconds. All ranks measure the paths between them, and each machine what its processor needs for steps
with gloo and each system. The slowest of each counts. Rank 0 computes the seconds of a step with each system, and
chooses for all: the fastest of gloo, torch's fp16 hook, sum32, thc and thc-wide where it takes 10 % less time than
gloo, and gloo otherwise.

Ranks have a machine each, or all share one; then the cores of that are divided, and the path is its loopback.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from torch import nn

from sumwire.lowrank.fusion import THRESHOLD_BYTES
from sumwire.start import paths, trial
from sumwire.start.rendezvous import Rendezvous
from sumwire.systems import pays
from sumwire.systems.pays import Answer, Measured, Question

AUTO: Final = "auto"
_BUCKET: Final = (THRESHOLD_BYTES // 4,)


@dataclass(frozen=True)
class Asked:
    """What the script tells. ``model``: whose gradients are summed; None assumes one full bucket of DDP, as the
    comparison of systems is the same for many of them. ``aggregator_rate``: bit/s of the aggregator's link, as "25G";
    None assumes that of a worker. A P4 switch has the sum of its ports. ``beside_rank_0``: the aggregator shares the
    link of rank 0's machine."""

    model: nn.Module | None = None
    aggregator_rate: str | None = None
    beside_rank_0: bool = False


@dataclass(frozen=True)
class Choice:
    """The system's name, and a line for humans that says why."""

    system: str
    line: str


def choose(meeting: Rendezvous, asked: Asked) -> Choice:
    """Choose a system: a collective call of all ranks, which get the same choice. Raises PlaceError where only some
    ranks share a machine, and ConfigError for a rate that is none."""
    given = meeting.telling(lambda: asked.aggregator_rate and pays.bit_rate("aggregator_rate", asked.aggregator_rate))
    if meeting.ranks == 1:
        return Choice(pays.GLOO, "sumwire: takes gloo (ssgd): there is one rank, which sends nothing")
    within = paths.are_on_one_machine(meeting)
    between = paths.measured(meeting, within=within)
    question = pays.question_of(
        shapes_of(asked.model), meeting.ranks, between.link_bps, between.rtt_s, given or between.link_bps,
        cores=len(os.sched_getaffinity(0)) if within else None,
    )  # fmt: skip
    # Ranks of one machine would measure each other.
    measures = meeting.rank == 0 or not within
    costs = meeting.telling(lambda: trial.measured(question, pays.STAND_INS) if measures else None)
    by_rank = meeting.gather(costs and asdict(costs), patience_s=trial.PATIENCE_S)
    slowest = Measured.slowest([one for one in by_rank if one is not None])
    mine = _chosen(question, slowest, _assumptions(asked, within=within)) if meeting.rank == 0 else None
    system, line = meeting.gather(mine)[0]
    return Choice(system, line)


def shapes_of(model: nn.Module | None) -> list[tuple[int, ...]]:
    """Return the shapes of a model's trained parameters, or of one bucket of DDP without a model or parameters."""
    found = [] if model is None else [tuple(p.shape) or (1,) for p in model.parameters() if p.requires_grad]
    return [shape for shape in found if 0 not in shape] or [_BUCKET]


def _assumptions(asked: Asked, *, within: bool) -> list[str]:
    found = [] if asked.model is not None else ["a gradient of one bucket of DDP: give model="]
    if asked.aggregator_rate is None and not asked.beside_rank_0 and not within:
        found.append("an aggregator with a link like a worker's: give aggregator_rate=")
    return found


def _chosen(question: Question, costs: Measured, assumed: Sequence[str]) -> list[Any]:
    found = [one for one in pays.answers(question, costs) if one.system in pays.STAND_INS]
    best = pays.stand_in(found)
    others = sorted((one for one in found if one is not best), key=lambda one: one.seconds)
    seconds = ", ".join(_took(one) for one in others if one is others[0] or one.system == pays.GLOO)
    line = (
        f"sumwire: takes {_took(best)} a step by computation; next best: {seconds}; {question.workers} ranks, "
        f"{question.values:,} values, {question.link_bps / 1e6:.4g} Mbit/s and {question.rtt_s * 1e3:.3g} ms there and "
        f"back"
    )
    return [best.system, "; assumed: ".join([line, *([" and ".join(assumed)] if assumed else [])])]


def _took(one: Answer) -> str:
    name = pays.label(one)
    return f"{name} ({one.system}) {one.seconds:.3g} s" if name != one.system else f"{name} {one.seconds:.3g} s"
