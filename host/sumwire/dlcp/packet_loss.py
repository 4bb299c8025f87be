# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Simulated loss of gradient packets, and `sumwire profile-loss`, which finds how much of it a script tolerates.

A training script calls this module:

    loss = sumwire.dlcp.packet_loss.from_environment()
    for inputs, labels in batches:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        loss.drop(model.parameters())                    # zeros the values of lost packets
        optimizer.step()

A lost packet's values become zeros, as in the papers. A job with a loss bound loses less: it divides by the number of
contributors, and keeps missing contributions for the next step. Without SUMWIRE_LOSS in the environment nothing is
lost, so the call can stay in the script.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np
import torch
from nativelib import programs
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.layout import CHUNK_VALUES
from sumwire.errors import ConfigError, SumwireError

# Environment variables: the share of lost packets, their pattern, and the seed of the draws.
SHARE: Final = "SUMWIRE_LOSS"
PATTERN: Final = "SUMWIRE_LOSS_PATTERN"
SEED: Final = "SUMWIRE_LOSS_SEED"
# Which packets may be lost.
OF: Final = "SUMWIRE_LOSS_OF"
# A file to which every process that drops packets adds a line when it ends.
REPORT: Final = "SUMWIRE_LOSS_REPORT"
IID: Final = "iid"
BURST: Final = "burst"
PATTERNS: Final = (IID, BURST)
ALL: Final = "all"
# Thirds of the values, by their place in the model: those of the front layers are the first third.
THIRDS: Final = ("front", "middle", "back")
# Halves of a tensor's packets, by the L2 norm of their values.
SMALL: Final = "small"
LARGE: Final = "large"
PLACES: Final = (ALL, *THIRDS, SMALL, LARGE)
# Mean length of a burst in packets.
BURST_PACKETS: Final = 8
PROFILING: Final = """How much loss a training script tolerates.

The result is the largest share of a grid with which the script still reaches its accuracy.

The script is run several times per share: with packets lost one by one and in bursts, and with several seeds. It gets
the loss from sumwire.dlcp.packet_loss.from_environment() and prints ``accuracy: X`` as its last line. A share holds if
the mean accuracy over the seeds reaches the target in both patterns. The grid is searched by bisection, which assumes
that accuracy does not rise with loss.
"""
GRID: Final = (0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_ACCURACY: Final = re.compile(r"^accuracy:\s*([-+.\deE]+)\s*$")
# Seconds that a script has to end after a signal.
_GRACE_S: Final = 5.0
_TAIL_LINES: Final = 15
_LAST_LINE: Final = "end the script with print(f'accuracy: {accuracy}')"

Say = Callable[[str], None]
Train = Callable[[float, str], "list[LossRun]"]


class PacketLoss:
    """Loses a share of packets: each independently (``iid``), or in bursts of 8 on average (``burst``).

    Bursts follow Gilbert's model: a state that loses and one that does not, each left at random. Equal ``seed`` and
    ``rank`` give equal draws. ``of``: only these packets may be lost, and the share is one of them.

    Raises ConfigError for a share outside [0, 1), an unknown pattern or unknown packets.
    """

    def __init__(self, share: float = 0.0, pattern: str = IID, seed: int = 0, rank: int = 0, of: str = ALL) -> None:
        if of not in PLACES:
            raise ConfigError("of", of, f"must be one of {', '.join(PLACES)}", where="packet loss")
        if not 0 <= share < 1:
            raise ConfigError("share", share, "must be in [0, 1)", where="packet loss")
        if pattern not in PATTERNS:
            raise ConfigError("pattern", pattern, f"must be one of {', '.join(PATTERNS)}", where="packet loss")
        if pattern == BURST and share > BURST_PACKETS / (BURST_PACKETS + 1):
            rule = f"bursts of {BURST_PACKETS} packets cannot lose more than {BURST_PACKETS / (BURST_PACKETS + 1):.3f}"
            raise ConfigError("share", share, rule, where="packet loss")
        self.share = share
        self.pattern = pattern
        self.of = of
        self.packets = 0
        self.lost = 0
        self._draws = np.random.default_rng((seed, rank))
        # Of the current state of a burst pattern: whether it loses, and how many packets are left in it.
        self._losing = False
        self._left = 0

    @torch.no_grad()
    def drop(self, parameters: Iterable[Tensor]) -> None:
        """Zero the values of lost packets in the parameters' gradients, taken as one flat tensor."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.share == 0 or not gradients:
            return
        flat = self.drop_flat(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        for gradient, piece in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(piece.view(gradient.shape))

    @torch.no_grad()
    def drop_flat(self, x: Tensor) -> Tensor:
        """Zero lost packets' values in a flat tensor, in place, and return it. A packet has 1024 values."""
        chosen = np.flatnonzero(self._may_be_lost(x))
        lost = self.draw(len(chosen))
        for packet in chosen[lost].tolist():
            x[packet * CHUNK_VALUES : (packet + 1) * CHUNK_VALUES] = 0.0
        return x

    def _may_be_lost(self, x: Tensor) -> NDArray[np.bool_]:
        """By packet of a flat tensor."""
        packets = -(-len(x) // CHUNK_VALUES)
        if self.of in THIRDS:
            middles = (np.arange(packets) + 0.5) / max(packets, 1)
            third: NDArray[np.bool_] = np.floor(middles * len(THIRDS)) == THIRDS.index(self.of)
            return third
        if self.of == ALL:
            return np.ones(packets, np.bool_)
        padded = x.new_zeros(packets * CHUNK_VALUES, dtype=torch.float64)
        padded[: len(x)] = x
        # Of an odd number the one in the middle is large.
        ranks = padded.view(packets, CHUNK_VALUES).square().sum(dim=1).argsort(stable=True).argsort(stable=True)
        small: NDArray[np.bool_] = (ranks < packets // 2).cpu().numpy()
        return small if self.of == SMALL else ~small

    def draw(self, packets: int) -> NDArray[np.bool_]:
        """Draw which of the next packets are lost, bool of shape (packets,)."""
        lost = self._draws.random(packets) < self.share if self.pattern == IID else self._bursts(packets)
        self.packets += packets
        self.lost += int(np.count_nonzero(lost))
        return lost

    def _bursts(self, packets: int) -> NDArray[np.bool_]:
        """Draw the lengths of states: bursts of 8 packets on average, and gaps that make the share right."""
        lost = np.zeros(packets, np.bool_)
        if self.share == 0:
            return lost
        between = BURST_PACKETS * (1 - self.share) / self.share
        at = 0
        while at < packets:
            if self._left == 0:
                # The first state is one without loss.
                self._losing = not self._losing if self.packets + at else False
                self._left = int(self._draws.geometric(1 / (BURST_PACKETS if self._losing else between)))
            here = min(self._left, packets - at)
            lost[at : at + here] = self._losing
            self._left -= here
            at += here
        return lost


def from_environment(rank: int = 0, environment: Mapping[str, str] | None = None) -> PacketLoss:
    """Return the loss set by SUMWIRE_LOSS (a share), SUMWIRE_LOSS_PATTERN (iid or burst), SUMWIRE_LOSS_OF (which
    packets) and SUMWIRE_LOSS_SEED.

    ``rank`` is this worker's, if the script is several processes, so that each loses packets of its own. Raises
    ConfigError for values out of range.
    """
    given = os.environ if environment is None else environment
    share, seed = _number(given, SHARE, float), _number(given, SEED, int)
    loss = PacketLoss(share, given.get(PATTERN, IID), int(seed), rank, given.get(OF, ALL))
    if REPORT in given:
        atexit.register(_report, loss, Path(given[REPORT]))
    return loss


def _number(given: Mapping[str, str], name: str, kind: type[float] | type[int]) -> float:
    text = given.get(name, "0")
    try:
        return kind(text)
    except ValueError as error:
        raise ConfigError(name, text, "must be a number", where="environment") from error


def _report(loss: PacketLoss, path: Path) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"packets": loss.packets, "lost": loss.lost}) + "\n")


class ProfileError(SumwireError):
    """The script failed, or did not print what it must."""


@dataclass(frozen=True, slots=True)
class LossRun:
    """One training: the loss asked for, the share that was lost, and the accuracy."""

    share: float
    pattern: str
    seed: int
    lost_share: float
    accuracy: float
    seconds: float


@dataclass
class LossProfile:
    """All runs, and ``bound``, the largest share that holds; 0 if only the run without loss does."""

    target: float
    baseline: float
    runs: list[LossRun] = field(default_factory=list)
    bound: float = 0.0

    def mean(self, share: float, pattern: str) -> float:
        """Return the mean accuracy over the seeds."""
        return fmean(run.accuracy for run in self.runs if (run.share, run.pattern) == (share, pattern))

    def as_dict(self) -> dict[str, Any]:
        """Return the contents as values that JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class Script:
    """A training script with its arguments. ``timeout_s``: the time limit of a run in seconds; None is no limit.
    ``of``: which packets may be lost, one of :data:`PLACES`."""

    path: Path
    arguments: tuple[str, ...] = ()
    timeout_s: float | None = None
    of: str = ALL

    def __post_init__(self) -> None:
        if not self.path.is_file():
            cure = "name one that is there: sumwire profile-loss SCRIPT.py"
            raise ConfigError("script", str(self.path), "must be a Python file", where="profile-loss", cure=cure)

    def run(self, share: float, pattern: str, seed: int) -> LossRun:
        """Train once. Raises ProfileError for a script that fails, prints no accuracy or never drops packets."""
        with tempfile.TemporaryDirectory(prefix="sumwire-profile-") as folder:
            report = Path(folder) / "lost"
            settings = {SHARE: repr(share), PATTERN: pattern, OF: self.of, SEED: str(seed), REPORT: str(report)}
            began = time.monotonic()
            output = self._output(programs.script_environment(settings))
            seconds = time.monotonic() - began
            packets, lost = _reported(report)
        accuracy = _accuracy(output)
        if share and not packets:
            cure = "let it call sumwire.dlcp.packet_loss.from_environment().drop on its gradients"
            raise ProfileError(f"{self.path}: lost nothing: {cure}")
        return LossRun(share, pattern, seed, lost / packets if packets else 0.0, accuracy, seconds)

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
    patterns: Sequence[str] = PATTERNS,
    seeds: int = 3,
    say: Say = lambda _: None,
) -> LossProfile:
    """Find the largest share of lost packets in ``grid`` with which the script still reaches its accuracy.

    ``target`` is the accuracy to reach; None is the accuracy without loss minus ``within``. ``say`` gets a line for
    every run.

    Raises ConfigError for a grid that does not rise within (0, 1), unknown patterns or no seeds; ProfileError for a
    script that misses the target even without loss.
    """
    _check(grid, patterns, seeds)

    def train(share: float, pattern: str) -> list[LossRun]:
        return [_told(script.run(share, pattern, seed), say) for seed in range(seeds)]

    runs = train(0.0, IID)
    baseline = fmean(run.accuracy for run in runs)
    found = LossProfile(baseline - within if target is None else target, baseline, runs)
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


def _holds(found: LossProfile, share: float, patterns: Sequence[str], train: Train, say: Say) -> bool:
    """Return whether a share reaches the target in all patterns; stops at the first that does not."""
    for pattern in patterns:
        found.runs += train(share, pattern)
        mean = found.mean(share, pattern)
        good = mean >= found.target
        say(f"p = {share:g} {pattern}: mean {mean:.4f}, target {found.target:.4f}: {'holds' if good else 'misses'}")
        if not good:
            return False
    return True


def _told(run: LossRun, say: Say) -> LossRun:
    lost = f"{100 * run.lost_share:.2f} % lost"
    say(f"p = {run.share:g} {run.pattern} seed {run.seed}: accuracy {run.accuracy:.4f}, {lost}, {run.seconds:.1f} s")
    return run


def _check(grid: Sequence[float], patterns: Sequence[str], seeds: int) -> None:
    where = "profile-loss"
    if not grid or any(not 0 < share < 1 for share in grid) or list(grid) != sorted(set(grid)):
        rule = "must be shares that rise within (0, 1)"
        raise ConfigError("grid", tuple(grid), rule, where=where, cure="--grid P,P,...")
    if not patterns or any(pattern not in PATTERNS for pattern in patterns):
        rule = f"must be some of {', '.join(PATTERNS)}"
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
