# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job's `degrade`: loss made on purpose, for experiments. Reading, rules, and the arguments of its row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from sumwire_controller.errors import Problem
from sumwire_controller.model.config import DEGRADE_MODES, Degrade, Job
from sumwire_controller.parse.reader import Log, MappingReader
from sumwire_controller.parse.yamltree import Node

_KEYS: Final = ("seed", "share", "mode")
_SEED_BITS: Final = 32
_WHOLE: Final = 1 << 16
"""The program compares 16 bits of a hash with the share of this."""


def read_degrade(node: Node, path: str, log: Log) -> Degrade | None:
    read = MappingReader(node, path, log)
    seed, share, mode = read.integer("seed"), read.number("share"), read.text("mode")
    read.finish(_KEYS)
    return None if seed is None or share is None or mode is None else Degrade(seed, share, mode)


def degrade_rules(path: str, job: Job, elsewhere: str) -> Iterator[Problem]:
    """:param elsewhere: another switch that has a part in the job, empty if there is none."""
    if job.degrade is None:
        return
    if elsewhere:
        rule = f"is only for a job that one switch has alone; {elsewhere} has a part in this one"
        yield Problem(path, "degrade", "{...}", rule)
    if "thc" not in job.ops:
        yield Problem(path, "degrade", "{...}", "is only for op thc, which this job does not have")
    path = f"{path}.degrade"
    if not 0 <= job.degrade.seed < 1 << _SEED_BITS:
        yield Problem(path, "seed", job.degrade.seed, f"must be 0..2^{_SEED_BITS}-1")
    if not (math.isfinite(job.degrade.share) and 0 <= job.degrade.share <= 1):
        yield Problem(path, "share", job.degrade.share, "must be 0..1, the share of the packets that are hit")
    if job.degrade.mode not in DEGRADE_MODES:
        yield Problem(path, "mode", job.degrade.mode, f"must be one of {', '.join(DEGRADE_MODES)}")


def degrade_args(degrade: Degrade, lane: int) -> tuple[int, int, int]:
    """seed, share and mode of the program's row. Every lane has a seed of its own: not the same slots in all."""
    seed = degrade.seed + lane & (1 << _SEED_BITS) - 1
    return seed, round(degrade.share * _WHOLE), DEGRADE_MODES[degrade.mode]
