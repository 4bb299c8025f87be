# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make run`: one training with each system in turn, and their comparison."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from sumwire_protocol.events import Event

from sumwire_lab.errors import DeadlineError, OptionError
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.control_plane import no_queues, virtual_queues
from sumwire_lab.network.fabric import Fabric, plan
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options import recorded
from sumwire_lab.options.recipes import Recipe, parse
from sumwire_lab.options.run_options import AGGREGATOR, RunOptions
from sumwire_lab.run.conditions import LinkMeter, MalformedSenders, apply_conditions
from sumwire_lab.run.live import LivePage, Moment
from sumwire_lab.run.page import render
from sumwire_lab.run.results import COLUMNS, RecordFollower, SystemResult, WorkerRecord, run_summary
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study import study
from sumwire_lab.study.experiment import Say, new_folder
from sumwire_lab.study.records import machine
from sumwire_lab.study.study import Study
from sumwire_lab.system import counters, leftovers
from sumwire_lab.system.barrier import Barrier
from sumwire_lab.training import worker
from sumwire_lab.training.worker import WorkerSpec

_LOG: Final = logging.getLogger("sumwire_lab")


def run(
    options: RunOptions,
    results: Path,
    say: Say,
    settings: Mapping[str, Any] | None = None,
    live: int | None = None,
) -> tuple[dict[str, Any], Path]:
    """Train with every system. Returns the summary, and the folder with all results. Raises LabError,
    KeyboardInterrupt.

    `settings`: the result of :func:`sumwire_lab.options.recorded.recorded`, kept in the folder for a replay. `live`:
    port of a page that follows the run, 0 for any free one; None for no page.
    """
    require_tools()
    _check_ops(options)
    kind = switches.choose_for(options)
    if kind == "soft":
        options = replace(options, engine=switches.choose_engine(options.engine))
    folder = new_folder(results)
    if settings is not None:
        recorded.save(folder, settings, options.layout)
    for line in leftovers.clean():
        say(f"removed from an earlier run: {line}")
    deadline = time.monotonic() + options.deadline_s
    done: list[SystemResult] = []
    summary: dict[str, Any] = {}

    def train_one(case: Mapping[str, Any]) -> dict[str, Any]:
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlineError(f"the run took longer than {options.deadline_s:g} s")
        system = case["system"]
        used = kind if parse(system).switched else None
        tick = partial(followed.tick, tuple(done), system)
        done.append(_one(system, options, used, folder, deadline_s=left, say=say, on_tick=tick))
        # Written after each system, so that a failure of a later one loses nothing.
        summary.update(run_summary(options, kind, done), machine=machine())
        render.write(folder, summary, done)
        followed.trained(done)
        return {column.name: summary["systems"][system].get(column.name) for column in COLUMNS}

    cases = [{"system": parse(name).name, "seed": options.train.seed} for name in options.systems]
    made = Study("run", "the same training with each system", cases, train_one, COLUMNS, stops=True)
    with _page(live, say) as page:
        followed = _Followed(page, options, kind)
        study.run(made, results, lambda _: None, folder=folder)
    return summary, folder


@contextmanager
def _page(port: int | None, say: Say) -> Iterator[LivePage | None]:
    """A page for the time of the block, or none."""
    if port is None:
        yield None
        return
    page = LivePage(port)
    say(f"live: {page.address}")
    words = "the run has been interrupted, or has failed"
    try:
        yield page
        words = "the run has ended; its folder has the report"
    finally:
        page.close(words)


class _Followed:
    """What a run tells the page that follows it, if there is one."""

    def __init__(self, page: LivePage | None, options: RunOptions, kind: str) -> None:
        self._page, self._options, self._kind = page, options, kind

    def tick(self, done: Sequence[SystemResult], system: str, records: Sequence[WorkerRecord]) -> None:
        """A system trains, and these are its workers' records so far."""
        if self._page is not None and self._page.watched:
            self._page.show(Moment.of(self._options, self._kind, done, system, records))

    def trained(self, done: Sequence[SystemResult]) -> None:
        """A system is done, the last one of these."""
        if self._page is not None:
            self._page.show(Moment(self._options, self._kind, tuple(done), f"{done[-1].system}: done"))


def _check_ops(options: RunOptions) -> None:
    """Raises OptionError for a system whose ops do not have room for the workers, before anything runs."""
    there = control_plane.ops_for(plan(options.workers, options.link, "", options.topology, layout=options.layout))
    for name in options.systems:
        missing = [op for op in parse(name).ops if op not in there]
        if missing:
            where = f"{options.workers} workers in topology {options.topology}"
            raise OptionError(f"systems={name}: op {missing[0]} has no room for {where}")


def _one(
    system: str,
    options: RunOptions,
    kind: str | None,
    folder: Path,
    *,
    deadline_s: float,
    say: Say,
    on_tick: Callable[[Sequence[WorkerRecord]], None],
) -> SystemResult:
    line = _told(system, options, kind)
    say(line)
    _LOG.info("%s", line, extra=Event.RUN_BEGAN(
        system=system, workers=options.workers, mbit=options.link.mbit, topology=options.topology,
    ))  # fmt: skip
    began = time.monotonic()
    recipe = parse(system).recipe
    jobs = _jobs(recipe, options)
    has_queues = recipe.laned and options.laned.queues and kind != AGGREGATOR
    if recipe.tagged:
        options = replace(options, link=replace(options.link, priorities=options.laned.priorities))
    queues = partial(virtual_queues, drops=options.laned.drops, trims=options.laned.trims)
    backlog = counters.backlog()
    with (
        open_session(options, kind, folder / system, jobs, queues if has_queues else no_queues) as session,
        apply_conditions(session, options.conditions) as applied,
    ):
        senders, links = MalformedSenders(session, options), LinkMeter(session)
        links.begin()

        def first_step() -> None:
            links.begin()
            senders.start()

        result = train(
            session, system, options, deadline_s=deadline_s, say=say, on_first_step=first_step, on_tick=on_tick
        )
        steps = [one.steps for one in result.workers]
        used = links.finish(links.seconds_of(steps[0]), applied, links.bytes_of(steps))
        extra = senders.finish(deadline_s) | applied.as_dict() | {"links": used}
        if recipe.laned:
            extra["drops"] = drops(session, queues=has_queues)
        counted = session.counted()
        extra["offloads"] = session.network.offloads
        if options.blind and kind is not None:
            extra["blind"] = True
    seconds = time.monotonic() - began
    _LOG.info("%s has trained, %.1f s", system, seconds, extra=Event.RUN_ENDED(system=system, seconds=seconds))
    sockets = sum(one.host_sockets for one in result.workers)
    lost = counters.gather(counted, backlog_before=backlog, sockets=sockets)
    return replace(result, extra={**extra, "lost": lost.as_dict()})


def _told(system: str, options: RunOptions, kind: str | None) -> str:
    """The line that says what is trained next."""
    where = {None: "kernel bridges", AGGREGATOR: "a software aggregator"}.get(kind, f"{kind} switches")
    where += f", {options.engine} engine" if kind == "soft" else ""
    where += " before a server" if options.server and kind is not None else ""
    where += f"; {options.conditions.words()}" if options.conditions.any else ""
    return f"{system}: {options.workers} workers, {options.link.mbit:g} Mbit/s links, {options.topology}, {where}"


def _jobs(recipe: Recipe, options: RunOptions) -> Callable[[Fabric], list[dict[str, Any]]]:
    """A function that makes the jobs of a system for a network."""
    if recipe.laned:
        return partial(control_plane.laned_job, options=options.laned, recipe=recipe, train=options.train)
    if recipe.bounded:
        return partial(control_plane.bounded_job, options=options.laned, recipe=recipe, train=options.train)
    made = control_plane.side_jobs if options.malformed else control_plane.training_job
    return partial(made, recipe=recipe, blind=options.blind, train=options.train)


BARRIER: Final = "steps"
"""Name of the socket at which the workers wait for each other."""


def train(
    session: Session,
    system: str,
    options: RunOptions,
    *,
    deadline_s: float,
    say: Say,
    on_first_step: Callable[[], None] = lambda: None,
    on_tick: Callable[[Sequence[WorkerRecord]], None] = lambda _: None,
) -> SystemResult:
    """Train on the session's hosts. `on_first_step` is called after the first step, and `on_tick` a few times a second
    with the workers' records so far. Raises the errors of `wait_all`."""
    fabric, folder = session.fabric, session.folder
    followers = [RecordFollower(folder / f"worker{rank}.jsonl") for rank in range(len(fabric.hosts))]
    recipe = parse(system).recipe
    spec = WorkerSpec(
        system=system,
        train=options.train,
        barrier=str(session.ledger.socket(BARRIER)) if options.needs_barrier else None,
        laned=options.laned if recipe.laned or recipe.bounded else None,
        slowness=tuple(options.conditions.slowness(rank) for rank in range(len(fabric.hosts))),
    )
    progress = TrainingProgress(system, followers, say, on_first_step)

    def tick() -> None:
        progress.tick()
        on_tick([follower.record for follower in followers])

    began = time.monotonic()
    with ExitStack() as stack:
        if spec.barrier is not None:
            stack.enter_context(Barrier(Path(spec.barrier), len(fabric.hosts)))
        session.call(worker.train, spec, deadline_s, tick=tick)
    progress.tick()
    if session.trace is not None:
        join_traces(folder)
    records = tuple(follower.record for follower in followers)
    return SystemResult(system, records, wall_s=time.monotonic() - began)


LINE_SECONDS: Final = 2.0


def line(system: str, record: WorkerRecord, elapsed_s: float) -> str:
    """Return a line with system, step, loss, accuracy, communication time and the estimated remaining time."""
    last = record.steps[-1]
    done = last.step + 1
    left = elapsed_s / done * (record.total_steps - done)
    accuracy = next((s.accuracy for s in reversed(record.steps) if s.accuracy is not None), None)
    loss = "      -" if last.loss is None else f"{last.loss:7.4f}"
    tested = "      -" if accuracy is None else f"{100 * accuracy:6.2f} %"
    return (
        f"{system:>5}  step {done:>4}/{record.total_steps}  loss {loss}  "
        f"accuracy {tested}  comm {last.comm_s:6.3f} s  left {left:4.0f} s"
    )


class TrainingProgress:
    """Follows the workers' records and reports new steps, at most every two seconds."""

    def __init__(
        self,
        system: str,
        followers: Sequence[RecordFollower],
        say: Callable[[str], None],
        on_first_step: Callable[[], None] = lambda: None,
    ) -> None:
        self._system = system
        self._on_first_step = on_first_step
        self._followers = followers
        self._say = say
        self._first_s: float | None = None
        self._said_s = 0.0
        self._said_step = -1

    def tick(self) -> None:
        """Read what is new, and report it if a line is due."""
        for follower in self._followers:
            follower.poll()
        record = self._followers[0].record
        if not record.steps:
            return
        now = time.monotonic()
        if self._first_s is None:
            self._first_s = now - record.steps[0].step_s
            self._on_first_step()
        step = record.steps[-1].step
        finished = step + 1 == record.total_steps
        if step > self._said_step and (finished or now - self._said_s >= LINE_SECONDS):
            self._said_s, self._said_step = now, step
            self._say(line(self._system, record, now - self._first_s))


NAME: Final = "trace.json"


def join_traces(folder: Path) -> None:
    """Write trace.json from all workers' trace-N.json, and remove these. Does nothing if there are none."""
    files = sorted(folder.glob("trace-*.json"))
    traces: list[dict[str, Any]] = [json.loads(file.read_text()) for file in files]
    if not traces:
        return
    events = [event for trace in traces for event in trace["traceEvents"]]
    (folder / NAME).write_text(json.dumps({**traces[0], "traceEvents": events}) + "\n")
    for file in files:
        file.unlink()


def drops(session: Session, *, queues: bool) -> dict[str, dict[str, int]]:
    """Return the tagged packets lost so far in links' queues, by priority.

    With virtual queues, also the packets that these queues marked, dropped or trimmed, by drop class. Raises LabError.
    """
    told = {"link_priorities": {str(key): count for key, count in session.network.priority_drops().items()}}
    if queues:
        told["queue_classes"] = control_plane.by_class(control_plane.queue_decisions(session.folder, tagged=True))
    return told
