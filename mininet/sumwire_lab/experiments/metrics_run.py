# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A lossy run whose metrics a real Prometheus reads, with `sumwire top` beside it in a terminal of 80 x 24."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sumwire_lab.errors import LabError
from sumwire_lab.network.switches import free_tcp_port
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.records import Follower
from sumwire_lab.run.training_run import run
from sumwire_lab.study.experiment import Say
from sumwire_lab.system.processes import cpu_clock, cpu_seconds, stop_process

PROMETHEUS: Final = "prometheus"
SYSTEM: Final = "thc"
_LINES, _COLUMNS = 24, 80
_ANSWER_S: Final = 10.0


def there() -> bool:
    """Whether this machine has Prometheus."""
    return shutil.which(PROMETHEUS) is not None


def training_of(steps: int) -> TrainOptions:
    """So many steps: the passes over the data that the task has by default would end before."""
    return TrainOptions(max_steps=steps, epochs=steps)


def scraped(results: Path, folder: Path, say: Say, *, steps: int) -> dict[str, Any]:
    """What summary.json and the workers' records of a run say, and what Prometheus has of it at the end.

    Also the share of a core that `sumwire top` took from the first step on. Raises LabError.
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
    followers = [Follower(path) for path in sorted((made / SYSTEM).glob("worker*.jsonl"))]
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
        """Whether it runs no more."""
        return self._process.poll() is not None

    def turn(self, *, works: bool) -> None:
        """Stop it, or let it work again."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGCONT if works else signal.SIGSTOP)

    def begin(self) -> None:
        if self._began is None:
            self._began = (time.monotonic(), cpu_seconds([cpu_clock(self._process.pid)]))

    def cost(self) -> float:
        """Processor seconds a second."""
        if self.ended:
            self.error = f"sumwire top ended with {self._process.returncode}"
        if self._began is None or self.error:
            return float("nan")
        began, used = self._began
        return (cpu_seconds([cpu_clock(self._process.pid)]) - used) / (time.monotonic() - began)


@contextmanager
def top_beside(targets: Path) -> Iterator[Top]:
    """A `sumwire top` of these targets, in a terminal of its own, until the block ends."""
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    command = [sys.executable, "-m", "sumwire.cli", "top", str(targets)]
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
