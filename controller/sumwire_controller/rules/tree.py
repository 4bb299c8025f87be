# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The last step of a topology's rules: the trees of its jobs, and the room that each switch's tables have."""

from __future__ import annotations

from collections.abc import Iterator

from sumwire_protocol.constants import JOB_WORKERS_MAX

from sumwire_controller.derive.switch_configs import configs_of
from sumwire_controller.derive.tree import JobTree, job_tree, roots_of
from sumwire_controller.errors import Problem
from sumwire_controller.model.config import Job
from sumwire_controller.model.topology import Topology
from sumwire_controller.rules.degrade import degrade_rules
from sumwire_controller.rules.drafts import draft_of
from sumwire_controller.rules.job import PARENTS, below_fit, either, fewer_rules, overlaps, quorum_rules
from sumwire_controller.rules.lanes import divides_equally, multiple_for
from sumwire_controller.rules.switch_config import validate_draft


def tree_problems(topology: Topology) -> Iterator[Problem]:
    """The broken rules of the jobs' trees. The network itself must keep its rules."""
    jobs = [(f"jobs[{i}]", job) for i, job in enumerate(topology.jobs)]
    trees: dict[int, JobTree] = {}
    for path, job in jobs:
        problems = [*_roots(path, job, roots_of(topology, job))]
        yield from problems
        if not problems:
            tree = trees[job.id] = job_tree(topology, job)
            yield from _seats(path, tree)
            yield from _below(path, job, tree)
            yield from _needs_a_star(path, job, tree)
    for job, other, problem in overlaps(jobs):
        shared = trees.keys() >= {job.id, other.id} and trees[job.id].seats.keys() & trees[other.id].seats.keys()
        if shared:
            yield Problem(
                problem.path, problem.field, problem.value, f"{problem.rule} at {min(shared)}: give it others"
            )


def _roots(path: str, job: Job, roots: tuple[str, ...]) -> Iterator[Problem]:
    if not roots:
        yield Problem(path, "workers", list(job.workers), "no switch is above all of them: add links to one")
    elif len(roots) not in PARENTS:
        shown = f"{len(roots)} switches ({', '.join(roots)})"
        yield Problem(path, "workers", list(job.workers), f"{shown} are above all of them: must be {either(PARENTS)}")
    elif not divides_equally(job, len(roots)):
        rule = (
            f"must be a multiple of {multiple_for(job, len(roots))}, so that {', '.join(roots)} have equally many slots"
        )
        yield Problem(f"{path}.slots", "count", job.slots.count, rule)


def _seats(path: str, tree: JobTree) -> Iterator[Problem]:
    for switch, seats in tree.seats.items():
        if len(seats) > JOB_WORKERS_MAX:
            rule = f"at most {JOB_WORKERS_MAX}, the width of the contributors"
            yield Problem(path, "workers", f"{len(seats)} workers at {switch}", rule)


def _below(path: str, job: Job, tree: JobTree) -> Iterator[Problem]:
    """The partial results of every switch that is no root have room for the hosts below it."""
    for switch, seats in tree.seats.items():
        if tree.parents[switch]:
            yield from below_fit(path, "workers", job, sum(seats.values()), switch)


def _needs_a_star(path: str, job: Job, tree: JobTree) -> Iterator[Problem]:
    """Some settings need a job that only one switch has."""
    elsewhere = list(tree.seats)[1] if len(tree.seats) > 1 else ""
    if elsewhere:
        yield from quorum_rules(path, job, elsewhere)
        yield from fewer_rules(path, job, elsewhere)
        yield from degrade_rules(path, job, elsewhere)


def size_problems(topology: Topology) -> Iterator[Problem]:
    """Switches whose tables do not have enough rows."""
    for i, config in enumerate(configs_of(topology)):
        for problem in validate_draft(draft_of(config)):
            yield Problem(f"switches[{i}]", problem.full_path, problem.value, problem.rule)
