# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make run`: one training with each system in turn, and their comparison."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sumwire_lab.errors import DeadlineError, OptionError
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import plan
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.recipes import parse
from sumwire_lab.options.run_options import AGGREGATOR, RunOptions
from sumwire_lab.run.apply_conditions import apply_conditions
from sumwire_lab.run.experiment import Say, interruptible, new_folder
from sumwire_lab.run.link_use import LinkMeter
from sumwire_lab.run.malformed_senders import MalformedSenders
from sumwire_lab.run.page import render
from sumwire_lab.run.session import open_session
from sumwire_lab.run.summary import SystemResult, run_summary
from sumwire_lab.run.train_system import train
from sumwire_lab.run.virtual_queues import drops, no_queues, virtual_queues
from sumwire_lab.system import drop_counters, leftovers


def run(options: RunOptions, results: Path, say: Say) -> tuple[dict[str, Any], Path]:
    """Train with every system. Returns the summary, and the folder with all results. Raises LabError,
    KeyboardInterrupt."""
    require_tools()
    _check_ops(options)
    kind = switches.choose_for(options)
    if kind == "soft":
        options = replace(options, engine=switches.choose_engine(options.engine))
    folder = new_folder(results)
    for line in leftovers.clean():
        say(f"removed from an earlier run: {line}")
    deadline = time.monotonic() + options.deadline_s
    done: list[SystemResult] = []
    with interruptible():
        for system in (parse(name).name for name in options.systems):
            left = deadline - time.monotonic()
            if left <= 0:
                raise DeadlineError(f"the run took longer than {options.deadline_s:g} s")
            used = kind if parse(system).switched else None
            done.append(_one(system, options, used, folder, deadline_s=left, say=say))
            # Written after each system, so that a failure of a later one loses nothing.
            summary = run_summary(options, kind, done)
            render.write(folder, summary, done)
    return summary, folder


def _check_ops(options: RunOptions) -> None:
    """Raises OptionError for a system whose ops do not have room for the workers, before anything runs."""
    there = control_plane.ops_for(plan(options.workers, options.link, "", options.topology))
    for name in options.systems:
        missing = [op for op in parse(name).ops if op not in there]
        if missing:
            where = f"{options.workers} workers in topology {options.topology}"
            raise OptionError(f"systems={name}: op {missing[0]} has no room for {where}")


def _one(
    system: str, options: RunOptions, kind: str | None, folder: Path, *, deadline_s: float, say: Say
) -> SystemResult:
    where = {None: "kernel bridges", AGGREGATOR: "a software aggregator"}.get(kind, f"{kind} switches")
    where += f", {options.engine} engine" if kind == "soft" else ""
    where += " before a server" if options.server and kind is not None else ""
    where += f"; {options.conditions.words()}" if options.conditions.any else ""
    say(f"{system}: {options.workers} workers, {options.link.mbit:g} Mbit/s links, {options.topology}, {where}")
    recipe = parse(system).recipe
    made = control_plane.side_jobs if options.malformed else control_plane.training_job
    jobs = partial(made, recipe=recipe, blind=options.blind, train=options.train)
    if recipe.bounded:
        jobs = partial(control_plane.bounded_job, options=options.laned, recipe=recipe, train=options.train)
    has_queues = recipe.laned and options.laned.queues and kind != AGGREGATOR
    if recipe.laned:
        jobs = partial(control_plane.laned_job, options=options.laned, recipe=recipe, train=options.train)
        options = replace(options, link=replace(options.link, priorities=options.laned.priorities))
    queues = partial(virtual_queues, drops=options.laned.drops)
    backlog = drop_counters.backlog()
    with (
        open_session(options, kind, folder / system, jobs, queues if has_queues else no_queues) as session,
        apply_conditions(session, options.conditions) as applied,
    ):
        senders, links = MalformedSenders(session, options), LinkMeter(session)

        def first_step() -> None:
            links.begin()
            senders.start()

        result = train(session, system, options, deadline_s=deadline_s, say=say, on_first_step=first_step)
        used = links.finish(result.workers[0].steps, applied)
        extra = senders.finish(deadline_s) | applied.as_dict() | {"links": used}
        if recipe.laned:
            extra["drops"] = drops(session, queues=has_queues)
        counted = session.counted()
        extra["offloads"] = session.network.offloads
        if options.blind and kind is not None:
            extra["blind"] = True
    sockets = sum(worker.host_sockets for worker in result.workers)
    lost = drop_counters.gather(counted, backlog_before=backlog, sockets=sockets)
    return replace(result, extra={**extra, "lost": lost.as_dict()})
