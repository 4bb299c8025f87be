# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs under observation: by Prometheus, which must have the run's own numbers, and by `sumwire top` in a terminal of
80 x 24. Also measures the effect of observation on the time of a step."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from nativelib import programs

from sumwire_lab.errors import LabError
from sumwire_lab.network.switches import free_tcp_port
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.results import RecordFollower, StepRecord
from sumwire_lab.run.training_run import run
from sumwire_lab.study.experiment import Say
from sumwire_lab.system.processes import cpu_clock, cpu_seconds, stop_process

PROMETHEUS: Final = "prometheus"
SYSTEM: Final = "thc"
_LINES, _COLUMNS = 24, 80
_ANSWER_S: Final = 10.0


def there() -> bool:
    """Return whether this machine has Prometheus."""
    return shutil.which(PROMETHEUS) is not None


def training_of(steps: int) -> TrainOptions:
    """Options for a training of `steps` steps, since the task's default passes over the data would end before."""
    return TrainOptions(max_steps=steps, epochs=steps)


def scraped(results: Path, folder: Path, say: Say, *, steps: int) -> dict[str, Any]:
    """Run with Prometheus. Returns the numbers in summary.json and the workers' records, and those in Prometheus at the
    end.

    Also returns the share of a core that `sumwire top` took from the first step on. Raises LabError.
    """
    targets = folder / "targets.json"
    targets.write_text("[]")
    tops: list[Top] = []
    options = RunOptions(
        systems=(SYSTEM,),
        link=LinkOptions(mbit=50.0),
        train=training_of(steps),
        conditions=Conditions(loss=0.02),
        metrics=str(targets),
    )
    with _prometheus(folder, targets) as place, ExitStack() as stack:

        def told(line: str) -> None:
            # It reads the list when it starts, and is not measured before the next line.
            for top in tops:
                top.begin()
            if not tops and json.loads(targets.read_text()):
                tops.append(stack.enter_context(top_beside(targets)))
            say(line)

        summary, made = run(options, results, told)
        if not tops:
            raise LabError("the run ended before sumwire top could be started; give it more steps")
        cost = tops[0].cost()
        values = _values(place)
    followers = [RecordFollower(path) for path in sorted((made / SYSTEM).glob("worker*.jsonl"))]
    for follower in followers:
        follower.poll()
    return {
        "summary": summary["systems"][SYSTEM],
        "stats": {follower.record.rank: follower.record.stats for follower in followers},
        "values": values,
        "top_cores": cost,
        "top_error": tops[0].error,
    }


@contextmanager
def _prometheus(folder: Path, targets: Path) -> Iterator[str]:
    """A Prometheus that reads every second what `targets` names; gives the address and port of its own interface."""
    config, log = folder / "prometheus.yml", folder / "prometheus.log"
    discovery = [{"files": [str(targets)], "refresh_interval": "1s"}]
    job = {"job_name": "sumwire", "scrape_interval": "1s", "scrape_timeout": "1s", "file_sd_configs": discovery}
    config.write_text(json.dumps({"scrape_configs": [job]}))
    place = f"127.0.0.1:{free_tcp_port()}"
    command = [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, f"--web.listen-address={place}"], stdout=out, stderr=subprocess.STDOUT)
    try:
        yield place
        if process.poll() is not None:
            raise LabError(f"prometheus ended with {process.returncode}; see {log}")
    finally:
        stop_process(process)


def _values(place: str) -> list[dict[str, Any]]:
    """The last value of each of the workers' metrics."""
    query = urllib.parse.urlencode({"query": 'last_over_time({__name__=~"sumwire_job_.*"}[2h])'})
    with urllib.request.urlopen(f"http://{place}/api/v1/query?{query}", timeout=_ANSWER_S) as answer:
        found = json.load(answer)["data"]["result"]
    return [{**one["metric"], "value": float(one["value"][1])} for one in found]


class Top:
    """A running `sumwire top`, and its processor time from :meth:`begin` on."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._began: tuple[float, float] | None = None
        self.error = ""

    @property
    def ended(self) -> bool:
        """Whether the program has ended."""
        return self._process.poll() is not None

    def turn(self, *, works: bool) -> None:
        """Stop the program, or let it work again."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGCONT if works else signal.SIGSTOP)

    def begin(self) -> None:
        if self._began is None:
            self._began = (time.monotonic(), cpu_seconds([cpu_clock(self._process.pid)]))

    def cost(self) -> float:
        """Return the processor seconds that the program uses per second."""
        if self.ended:
            self.error = f"sumwire top ended with {self._process.returncode}"
        if self._began is None or self.error:
            return float("nan")
        began, used = self._began
        return (cpu_seconds([cpu_clock(self._process.pid)]) - used) / (time.monotonic() - began)


@contextmanager
def top_beside(targets: Path) -> Iterator[Top]:
    """Run `sumwire top` for these targets, in a separate terminal, until the block ends."""
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    command = programs.module("sumwire.cli", "top", str(targets))
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env={**os.environ, "TERM": "xterm-256color"}
    )
    os.close(terminal)
    emptied = threading.Thread(target=_read_all, args=[reader], daemon=True)
    emptied.start()
    try:
        yield Top(process)
    finally:
        stop_process(process)
        emptied.join()
        os.close(reader)


def _read_all(reader: int) -> None:
    """A terminal that nobody reads would stop who writes to it."""
    with suppress(OSError):
        while os.read(reader, 1 << 16):
            pass


_SYSTEM: Final = "thc"
# The first steps are those of a cold start.
_COLD: Final = 5
# Two scrapes of `sumwire top`.
WINDOW_S: Final = 4.0


def with_metrics(results: Path, folder: Path, say: Say, *, steps: int, rounds: int) -> list[tuple[float, float]]:
    """Return, for each round, the median seconds of a step without metrics, and with metrics that nobody reads.

    Every other round begins with metrics. `folder`: for the lists of targets. Raises LabError.
    """
    found = []
    for number in range(rounds):
        took = {}
        for metrics in (False, True) if number % 2 == 0 else (True, False):
            options = _options(steps, folder / f"targets{number}.json" if metrics else None)
            took[metrics] = median(step.step_s for step in _trained(results, options, say))
        found.append((took[False], took[True]))
        say(f"round {number + 1} of {rounds}: {took[False]:.4f} s a step, {took[True]:.4f} s with metrics")
    return found


def with_top(results: Path, folder: Path, say: Say, *, steps: int) -> list[tuple[float, float]]:
    """Return pairs of mean seconds of a step: while `sumwire top` is stopped, and in the neighbouring window in which
    it runs.

    Raises LabError.
    """
    targets = folder / "targets.json"
    options = _options(steps, targets)
    turns: list[_Turns] = []
    with ExitStack() as stack:

        def told(line: str) -> None:
            if not turns and json.loads(targets.read_text()):
                turns.append(stack.enter_context(_in_turn(stack.enter_context(top_beside(targets)))))
            say(line)

        done = _trained(results, options, told)
        if not turns or turns[0].top.ended:
            raise LabError("sumwire top did not run beside the run; give it more steps")
    return compared(done, turns[0].times)


def compared(steps: Sequence[StepRecord], times: Sequence[float]) -> list[tuple[float, float]]:
    """Return pairs of neighbouring windows: the mean step without `sumwire top`, and with it.

    `times`: the beginnings of the windows and the end of the last one; `sumwire top` runs in the first one. Steps that
    cross a border belong to no window.
    """
    windows = [
        [step.step_s for step in steps if step.at_s is not None and begin <= step.at_s <= end - step.step_s]
        for begin, end in pairwise(times)
    ]
    pairs = []
    for number, (one, other) in enumerate(pairwise(windows)):
        if one and other:
            watched, plain = (one, other) if number % 2 == 0 else (other, one)
            pairs.append((mean(plain), mean(watched)))
    return pairs


class _Turns:
    """`times`: when `top` was continued or stopped, by the machine's clock."""

    def __init__(self, top: Top) -> None:
        self.top, self.times = top, [time.perf_counter()]


@contextmanager
def _in_turn(top: Top) -> Iterator[_Turns]:
    turns, ending = _Turns(top), threading.Event()

    def work() -> None:
        while not ending.wait(WINDOW_S):
            top.turn(works=len(turns.times) % 2 == 0)
            turns.times.append(time.perf_counter())

    thread = threading.Thread(target=work, name="turns", daemon=True)
    thread.start()
    try:
        yield turns
    finally:
        ending.set()
        thread.join()
        top.turn(works=True)


def _options(steps: int, targets: Path | None) -> RunOptions:
    options = RunOptions(systems=(_SYSTEM,), train=training_of(steps + _COLD))
    if targets is None:
        return options
    targets.write_text("[]")
    return replace(options, metrics=str(targets))


def _trained(results: Path, options: RunOptions, say: Say) -> list[StepRecord]:
    """The steps of the first worker; all workers' begin and end together."""
    _, made = run(options, results, say)
    follower = RecordFollower(made / _SYSTEM / "worker0.jsonl")
    follower.poll()
    return follower.record.steps[_COLD:]
