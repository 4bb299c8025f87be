# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How much loss a training script tolerates: the largest share of a grid with which it still reaches its accuracy.

The script is run several times per share: with packets lost one by one and in bursts, and with several seeds. It gets
the loss from :func:`sumwire.dlcp.packet_loss.from_environment` and prints ``accuracy: X`` as its last line. A share
holds if the mean accuracy over the seeds reaches the target in both patterns. The grid is searched by bisection, which
assumes that accuracy does not rise with loss.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from nativelib import programs

from sumwire.dlcp import packet_loss
from sumwire.errors import ConfigError, SumwireError

GRID: Final = (0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_ACCURACY: Final = re.compile(r"^accuracy:\s*([-+.\deE]+)\s*$")
# Seconds that a script has to end after a signal.
_GRACE_S: Final = 5.0
_TAIL_LINES: Final = 15
_LAST_LINE: Final = "end the script with print(f'accuracy: {accuracy}')"

Say = Callable[[str], None]
Train = Callable[[float, str], "list[Run]"]


class ProfileError(SumwireError):
    """The script failed, or did not print what it must."""


@dataclass(frozen=True, slots=True)
class Run:
    """One training: the loss asked for, the share that was lost, and the accuracy."""

    share: float
    pattern: str
    seed: int
    lost_share: float
    accuracy: float
    seconds: float


@dataclass
class Profile:
    """All runs, and ``bound``, the largest share that holds; 0 if only the run without loss does."""

    target: float
    baseline: float
    runs: list[Run] = field(default_factory=list)
    bound: float = 0.0

    def mean(self, share: float, pattern: str) -> float:
        """Return the mean accuracy over the seeds."""
        return fmean(run.accuracy for run in self.runs if (run.share, run.pattern) == (share, pattern))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Script:
    """A training script with its arguments. A run ends after ``timeout_s`` seconds; None is no limit. ``of``: which
    packets may be lost, one of :data:`sumwire.dlcp.packet_loss.PLACES`."""

    path: Path
    arguments: tuple[str, ...] = ()
    timeout_s: float | None = None
    of: str = packet_loss.ALL

    def __post_init__(self) -> None:
        if not self.path.is_file():
            cure = "name one that is there: sumwire profile-loss SCRIPT.py"
            raise ConfigError("script", str(self.path), "must be a Python file", where="profile-loss", cure=cure)

    def run(self, share: float, pattern: str, seed: int) -> Run:
        """Train once. Raises ProfileError for a script that fails, prints no accuracy or never drops packets."""
        with tempfile.TemporaryDirectory(prefix="sumwire-profile-") as folder:
            report = Path(folder) / "lost"
            settings = {
                packet_loss.SHARE: repr(share),
                packet_loss.PATTERN: pattern,
                packet_loss.OF: self.of,
                packet_loss.SEED: str(seed),
                packet_loss.REPORT: str(report),
            }
            began = time.monotonic()
            output = self._output({**os.environ, **settings})
            seconds = time.monotonic() - began
            packets, lost = _reported(report)
        accuracy = _accuracy(output)
        if share and not packets:
            cure = "let it call sumwire.dlcp.packet_loss.from_environment().drop on its gradients"
            raise ProfileError(f"{self.path}: lost nothing: {cure}")
        return Run(share, pattern, seed, lost / packets if packets else 0.0, accuracy, seconds)

    def _output(self, environment: dict[str, str]) -> str:
        command = programs.script(self.path, *self.arguments)
        # A process group of its own, so that processes that the script has started can be ended with it.
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as child:
            try:
                output, _ = child.communicate(timeout=self.timeout_s)
            except subprocess.TimeoutExpired as error:
                _end(child)
                raise ProfileError(f"{self.path}: not done after {self.timeout_s} s: raise --timeout") from error
            except BaseException:
                _end(child)
                raise
        if child.returncode:
            tail = "\n".join(output.splitlines()[-_TAIL_LINES:])
            text = f"{self.path}: ended with code {child.returncode}:\n{tail}\n"
            raise ProfileError(f"{text}mend the script so that this ends with code 0: {shlex.join(command)}")
        return output


def profile(
    script: Script,
    *,
    target: float | None = None,
    within: float = 0.005,
    grid: Sequence[float] = GRID,
    patterns: Sequence[str] = packet_loss.PATTERNS,
    seeds: int = 3,
    say: Say = lambda _: None,
) -> Profile:
    """Find the largest share of ``grid`` that holds.

    ``target`` is the accuracy to reach; None is the accuracy without loss minus ``within``. ``say`` gets a line for
    every run.

    Raises ConfigError for a grid that does not rise within (0, 1), unknown patterns or no seeds; ProfileError for
    a script that misses the target even without loss.
    """
    _check(grid, patterns, seeds)

    def train(share: float, pattern: str) -> list[Run]:
        return [_told(script.run(share, pattern, seed), say) for seed in range(seeds)]

    runs = train(0.0, packet_loss.IID)
    baseline = fmean(run.accuracy for run in runs)
    found = Profile(baseline - within if target is None else target, baseline, runs)
    if baseline < found.target:
        reached = f"{script.path}: reaches {baseline:.4f} without loss, the target is {found.target:.4f}"
        raise ProfileError(f"{reached}: lower --target, or train longer")
    # grid[low] holds, -1 being no loss; grid[high] does not, or is beyond the grid.
    low, high = -1, len(grid)
    while high - low > 1:
        middle = (low + high) // 2
        if _holds(found, grid[middle], patterns, train, say):
            low = middle
        else:
            high = middle
    found.bound = grid[low] if low >= 0 else 0.0
    return found


def _holds(found: Profile, share: float, patterns: Sequence[str], train: Train, say: Say) -> bool:
    """Return whether a share reaches the target in all patterns; stops at the first that does not."""
    for pattern in patterns:
        found.runs += train(share, pattern)
        mean = found.mean(share, pattern)
        good = mean >= found.target
        say(f"p = {share:g} {pattern}: mean {mean:.4f}, target {found.target:.4f}: {'holds' if good else 'misses'}")
        if not good:
            return False
    return True


def _told(run: Run, say: Say) -> Run:
    lost = f"{100 * run.lost_share:.2f} % lost"
    say(f"p = {run.share:g} {run.pattern} seed {run.seed}: accuracy {run.accuracy:.4f}, {lost}, {run.seconds:.1f} s")
    return run


def _check(grid: Sequence[float], patterns: Sequence[str], seeds: int) -> None:
    where = "profile-loss"
    if not grid or any(not 0 < share < 1 for share in grid) or list(grid) != sorted(set(grid)):
        rule = "must be shares that rise within (0, 1)"
        raise ConfigError("grid", tuple(grid), rule, where=where, cure="--grid P,P,...")
    if not patterns or any(pattern not in packet_loss.PATTERNS for pattern in patterns):
        rule = f"must be some of {', '.join(packet_loss.PATTERNS)}"
        raise ConfigError("patterns", tuple(patterns), rule, where=where, cure="--pattern PATTERN")
    if seeds < 1:
        raise ConfigError("seeds", seeds, "must be 1 or more", where=where, cure="--seeds N")


def _reported(path: Path) -> tuple[int, int]:
    """Return (packets, lost) of all processes of a run."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return sum(line["packets"] for line in lines), sum(line["lost"] for line in lines)


def _accuracy(output: str) -> float:
    lines = [line for line in output.splitlines() if line.strip()]
    match = _ACCURACY.search(lines[-1]) if lines else None
    if match is None:
        raise ProfileError(f"the last line is {repr(lines[-1]) if lines else 'nothing'}: {_LAST_LINE}")
    try:
        return float(match[1])
    except ValueError as error:
        raise ProfileError(f"the last line is {lines[-1]!r}: {_LAST_LINE}") from error


def _end(child: subprocess.Popen[str]) -> None:
    """End the script and the processes that it has started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            return
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        return
