# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Computes the rows to change when a root fails: its slots move to the job's other roots. Pure functions."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final, Self

from commonlib.metrics import Reading
from sumwire_protocol import metrics as names
from sumwire_protocol.events import Event
from sumwire_protocol.metrics import QueueLabels

from sumwire_controller.deploy.channel import LivenessProbe, credentials_of
from sumwire_controller.deploy.operations import read_status
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import EntryChange, Write
from sumwire_controller.deploy.status import Status
from sumwire_controller.deploy.switch import DEFAULT_TIMEOUT_S, P4Switch
from sumwire_controller.derive.desired import uplinks
from sumwire_controller.derive.entries import UPLINK, Entry
from sumwire_controller.derive.jobs import with_lanes
from sumwire_controller.errors import NothingToWatchError, SwitchError
from sumwire_controller.model import Config, Job, Switch
from sumwire_controller.rules.agreement import check_together
from sumwire_controller.rules.switch_config import validate


def redundant_roots(configs: Sequence[Config]) -> dict[IPv4Address, str]:
    """Return, by the aggregator's address, the names of the switches that are one of several roots of a job."""
    redundant = {parent.ip for config in configs for job in _with_several_roots(config) for parent in job.parents}
    return {c.aggregator.ip: c.switch.name for c in configs if c.aggregator.ip in redundant}


def below_redundant_roots(configs: Sequence[Config]) -> tuple[Config, ...]:
    """Return the switches whose uplink rows select one of several roots, with a job for each lane."""
    return tuple(with_lanes(config) for config in configs if _with_several_roots(config))


def _with_several_roots(config: Config) -> list[Job]:
    return [job for job in config.jobs if len(job.parents) > 1]


def redirections(
    config: Config, held: Iterable[Entry], dead: Collection[IPv4Address], returned: Collection[IPv4Address] = ()
) -> list[EntryChange]:
    """Return the writes that move the slots of failed roots to the remaining roots.

    A job without any root left keeps its rows. A row that the switch does not have is not written.

    :param config: one of `below_redundant_roots`.
    :param held: the rows of the switch's uplink table.
    :param dead: addresses of the roots that do not answer.
    :param returned: roots that answer again, but may have lost their program and jobs. They are used only if no other
        root is left.
    """
    rows = {entry.identity: entry for entry in held}
    wanted = [
        row
        for job in _with_several_roots(config)
        if (left_out := _left_out(job, dead, returned)) is not None
        for row in uplinks(job, left_out)
    ]
    return [EntryChange(Write.MODIFY, row) for row in wanted if rows.get(row.identity, row) != row]


def stranded(config: Config, dead: Collection[IPv4Address]) -> list[str]:
    """Return the names of the jobs that have no root left."""
    return [job.name for job in _with_several_roots(config) if all(parent.ip in dead for parent in job.parents)]


def _left_out(job: Job, dead: Collection[IPv4Address], returned: Collection[IPv4Address]) -> set[IPv4Address] | None:
    """The roots to leave out; None if no other root would be left."""
    roots = {parent.ip for parent in job.parents}
    for gone in ({*dead, *returned}, {*dead}):
        if roots - gone:
            return roots & gone
    return None


log: Final = logging.getLogger(__name__)


class SwitchesMetrics:
    """A source of metrics: the counters of all switches of ``configs``, one after another.

    :param timeout: the limit of each call to a switch, in seconds.
    :param build_dir: folder of the compiled program; None for the checkout's.
    """

    def __init__(
        self, configs: Sequence[Config], *, timeout: float = DEFAULT_TIMEOUT_S, build_dir: Path | str | None = None
    ) -> None:
        self._configs, self._timeout, self._build_dir = tuple(configs), timeout, build_dir
        self._complained: dict[str, str] = {}

    def __call__(self) -> Iterator[Reading]:
        """All values now."""
        for config in self._configs:
            name = config.switch.name
            try:
                status = read_status(config, build_dir=self._build_dir, timeout=self._timeout)
            except SwitchError as error:
                if self._complained.get(name) != str(error):
                    self._complained[name] = str(error)
                    log.warning("%s: %s", name, error, extra=Event.SWITCH_SILENT(switch=name, reason=str(error)))
                yield Reading(names.UP, (name,), 0)
                continue
            self._complained.pop(name, None)
            yield from readings(status)


def readings(status: Status) -> Iterator[Reading]:
    """Return the metrics' readings of one switch's status."""
    name = status.switch
    yield Reading(names.UP, (name,), 1)
    yield Reading(names.IN_SYNC, (name,), status.in_sync)
    for metric, counts in ((names.VERDICTS, status.verdicts), (names.REFUSED, status.rejects)):
        for what, count in counts.items():
            yield Reading(metric, (name, what), count.packets)
    for worker in status.workers:
        key = (name, str(worker.job), str(worker.worker))
        yield Reading(names.WORKER_PACKETS, key, worker.packets)
        yield Reading(names.WORKER_BYTES, key, worker.bytes)
    for queue in status.queues:
        labels = QueueLabels(queue.tagged, queue.drop_class, queue.decision).words()
        yield Reading(names.QUEUE_PACKETS, (name, str(queue.port), *labels), queue.packets)


INTERVAL_S: Final = 0.1
PATIENCE_S: Final = 0.3
_WRITE_PATIENCE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An event at `switch`.

    `kind` is "dead" or "back" for a root. For a switch below it is "moved" (its rows no longer name the dead root),
    "failed" (the rows could not be written; it will try again) or "stranded" (a job has no root left). `after_s` is the
    time in seconds since the last answer of the root that died last or, for "back", of this root.
    """

    kind: str
    switch: str
    after_s: float
    detail: str

    def as_json(self) -> dict[str, Any]:
        """Return the event as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.switch}: {self.kind} after {self.after_s:.3f} s: {self.detail}"


@dataclass
class _Board:
    """The state of the roots. `changed` is its lock; `version` counts the deaths."""

    names: dict[IPv4Address, str]
    changed: threading.Condition = field(default_factory=threading.Condition)
    dead: dict[IPv4Address, float] = field(default_factory=dict)
    returned: set[IPv4Address] = field(default_factory=set)
    latest: float = 0.0
    version: int = 0

    def died(self, root: IPv4Address, last_answer: float) -> None:
        with self.changed:
            self.dead[root] = self.latest = last_answer
            self.returned.discard(root)
            self.version += 1
            self.changed.notify_all()

    def came_back(self, root: IPv4Address) -> None:
        with self.changed:
            del self.dead[root]
            self.returned.add(root)

    def after(self, version: int, stop: threading.Event) -> tuple[int, float, set[IPv4Address], set[IPv4Address]]:
        """Wait until `version` is outdated or `stop` is set.

        Returns the current version, the time of the last answer of the root that died last, the dead roots, and those
        that answer again.
        """
        with self.changed:
            self.changed.wait_for(lambda: stop.is_set() or self.version != version)
            return self.version, self.latest, set(self.dead), set(self.returned)


class Watch:
    """Watches the roots within a `with` block. Events are appended to `events` and passed to `say`, one at a time.

    :param configs: all switches of the network, as `configs_of` returns them.
    :param interval_s: pause between an answer of a root and the next request, in seconds.
    :param patience_s: how long an answer may take, in seconds.
    :param build_dir: folder of the compiled program; None for the checkout's.
    :param take_over: write a switch's rows even if another controller is its primary.
    :raises ConfigError: as `apply_all`.
    :raises TlsFilesError: a file for TLS is missing or cannot be read.
    :raises NothingToWatchError: no job has several roots.
    :raises ArtifactError: the compiled program is missing, or lacks a table that the controller writes.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        *,
        interval_s: float = INTERVAL_S,
        patience_s: float = PATIENCE_S,
        build_dir: Path | str | None = None,
        take_over: bool = False,
        say: Callable[[WatchEvent], object] = lambda event: None,
    ) -> None:
        for config in configs:
            validate(config)
            credentials_of(config.switch)  # here, not first in a thread
        check_together(configs)
        roots = redundant_roots(configs)
        if not roots:
            rule = "no job has several switches above its workers' that could replace each other"
            raise NothingToWatchError(f"{rule}; give it 2 or 4 in `links`, or do not watch")
        self._switches = {c.aggregator.ip: c.switch for c in configs if c.aggregator.ip in roots}
        self._below = below_redundant_roots(configs)
        self._program = Program.load(build_dir)
        self._interval_s, self._patience_s, self._say = interval_s, patience_s, say
        self._take_over = take_over
        self._board = _Board(roots)
        self._stop = threading.Event()
        self._saying = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.events: list[WatchEvent] = []

    @property
    def roots(self) -> tuple[str, ...]:
        """The names of the switches that are watched."""
        return tuple(self._board.names.values())

    @property
    def below(self) -> tuple[str, ...]:
        """The names of the switches whose rows are written."""
        return tuple(config.switch.name for config in self._below)

    def __enter__(self) -> Self:
        first = threading.Barrier(len(self._switches) + 1)
        for root, switch in self._switches.items():
            self._start(f"watch-{switch.name}", partial(self._ask, root, switch, first))
        for config in self._below:
            self._start(f"mend-{config.switch.name}", partial(self._mend, config))
        first.wait()  # every root has been asked once
        return self

    def _start(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._board.changed:
            self._board.changed.notify_all()
        for thread in self._threads:
            thread.join()

    # -- a thread for each root --------------------------------------------------------------------------

    def _ask(self, root: IPv4Address, switch: Switch, first: threading.Barrier) -> None:
        probe = LivenessProbe(switch, self._patience_s)
        last_answer, alive = time.monotonic(), True
        waits: threading.Barrier | None = first
        while not self._stop.is_set():
            answers = probe.answers()
            now = time.monotonic()
            if answers and not alive:
                self._board.came_back(root)
                self._tell("back", switch.name, now - last_answer, "answers again; used again after the next apply")
            elif alive and not answers:
                self._tell("dead", switch.name, now - last_answer, f"no answer at {switch.grpc}")
                self._board.died(root, last_answer)
            alive = answers
            last_answer = now if answers else last_answer
            if waits is not None:
                waits.wait()
                waits = None
            self._stop.wait(self._interval_s)
        probe.close()

    # -- a thread for each switch below ------------------------------------------------------------------

    def _mend(self, config: Config) -> None:
        done, complained = 0, ""
        board, name = self._board, config.switch.name
        while True:
            version, since, dead, returned = board.after(done, self._stop)
            if self._stop.is_set():
                return
            try:
                rows = self._write(config, dead, returned)
            except SwitchError as error:
                if str(error) != complained:
                    complained = str(error)
                    self._tell("failed", name, time.monotonic() - since, complained)
                self._stop.wait(self._interval_s)
                continue
            done, complained = version, ""
            gone = ", ".join(board.names[root] for root in dead) or "nothing"
            self._tell("moved", name, time.monotonic() - since, f"{rows} rows changed to leave out {gone}")
            for job in stranded(config, dead):
                self._tell("stranded", name, time.monotonic() - since, f"job {job} has no root left")

    def _write(self, config: Config, dead: set[IPv4Address], returned: set[IPv4Address]) -> int:
        """Open a session for each write: one kept open would keep `apply` from becoming the primary."""
        with P4Switch(config.switch, _WRITE_PATIENCE_S, take_over=self._take_over) as switch:
            changes = redirections(config, switch.rows(self._program, UPLINK.name), dead, returned)
            for change in changes:
                switch.write(self._program, change)
            return len(changes)

    def _tell(self, kind: str, switch: str, after_s: float, detail: str) -> None:
        event = WatchEvent(kind, switch, after_s, detail)
        with self._saying:
            self.events.append(event)
            self._say(event)
