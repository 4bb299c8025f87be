# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Kills ranks of an elastic training at random moments, and starts new ones: how long the others stand still, whether
all end with the same parameters, and whether each step has applied what the ranks' gradients and residuals were.

Four ranks on loopback train on scikit-learn's digits, with `sumwire up --elastic`. The batch of a step does not depend
on who is there, so the training is compared with the same one in a single process. Needs torchft.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import sumwire
import torch
from nativelib import programs
from torch import Tensor, nn

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.added_lines import own_address

RANKS: Final = 4
BATCH: Final = 256
TEST: Final = 360
# Steps before the first kill, and after the last rank has come.
_STEPS_APART: Final = 20
# A rank's program needs some seconds to load, on a busy machine a minute. Who says nothing for so long hangs.
_HANGS_S: Final = 240.0
# From a moment at which all ranks are there to the kill: a step takes some tens of milliseconds.
_MOMENTS_S: Final = 0.5


def model_of(seed: int = 1) -> nn.Module:
    """Return the model, with the same parameters in each process."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Return its optimizer."""
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


class Digits:
    """Scikit-learn's digits. The first of them are for the test."""

    def __init__(self) -> None:
        from sklearn.datasets import load_digits

        digits = load_digits()
        self.inputs = torch.tensor(digits.data, dtype=torch.float32) / 16
        self.labels = torch.tensor(digits.target)

    def loss(self, model: nn.Module, step: int, rank: int = 0, ranks: int = 1) -> Tensor:
        """Return the loss of one rank's share of a step's batch."""
        drawn = torch.Generator().manual_seed(step)
        rows = torch.randint(TEST, len(self.inputs), (BATCH,), generator=drawn)[rank::ranks]
        return nn.functional.cross_entropy(model(self.inputs[rows]), self.labels[rows])

    def accuracy(self, model: nn.Module) -> float:
        """Return the share of the test that the model gets right."""
        with torch.no_grad():
            return float((model(self.inputs[:TEST]).argmax(1) == self.labels[:TEST]).float().mean())


def uninterrupted(steps: int) -> float:
    """Return the accuracy of the same training in one process, uncompressed."""
    digits, model = Digits(), model_of()
    optimizer = optimizer_of(model)
    for step in range(steps):
        optimizer.zero_grad()
        digits.loss(model, step).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return digits.accuracy(model)


# -- one rank ----------------------------------------------------------------------------------------------


def flat(tensors: Any) -> Tensor:
    """Return copies of tensors, as one."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).clone()


def residuals(training: Any, like: Sequence[Tensor]) -> Tensor:
    """Return this rank's residuals, in the order of the parameters."""
    training.state.settle()
    kept = training.state.feedback.kept().residuals
    return flat(kept.get(number, torch.zeros(one.numel())) for number, one in enumerate(like))


def share(end: Path) -> None:
    """Train as one rank, until the step that the file names. Each line of the output is JSON."""
    torch.set_num_threads(1)
    digits, model = Digits(), model_of()
    parameters = list(model.parameters())
    with sumwire.elastic(model, optimizer_of(model)) as training:
        while training.step < int(end.read_text()):
            training.begin()
            loss = digits.loss(training.model, training.step, training.rank, training.ranks)
            owed = flat(torch.autograd.grad(loss, parameters, retain_graph=True)) + residuals(training, parameters)
            loss.backward()  # type: ignore[no-untyped-call]
            applied = flat(one.grad for one in parameters)
            counts = training.commit()
            told = {"step": training.step, "ranks": training.ranks, "counts": counts, "at": time.monotonic()}
            with contextlib.suppress(sumwire.RecreateError):
                if counts:
                    told |= _balance(training, owed, applied, residuals(training, parameters))
            _say(told)
        _say({"end": training.step, "parameters": hashlib.sha256(flat(parameters).numpy().tobytes()).hexdigest()}
             | {"accuracy": digits.accuracy(model)})  # fmt: skip


def _balance(training: Any, owed: Tensor, applied: Tensor, left: Tensor) -> dict[str, float]:
    """What the ranks owed the model is what it has got and what they still owe: `lost` is the largest difference of a
    value, of the largest one; `error` THC's squared error of what was applied, of the squared norm."""
    both = sumwire.all_reduce(torch.stack([owed, left]), training.job, precision="exact")
    owed, left = both
    largest = float(owed.abs().max())
    return {
        "lost": float((owed - applied - left).abs().max()) / largest,
        "error": float((owed - applied).square().sum() / owed.square().sum()),
    }


def _say(told: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


# -- all of them -------------------------------------------------------------------------------------------


class Programs:
    """The programs of a training. ``folder``: for the file that names the last step, and logs."""

    def __init__(self, folder: Path) -> None:
        self.address = own_address()
        self.end = folder / "end"
        self.said: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        self.ranks: dict[int, subprocess.Popen[str]] = {}
        self.lines: list[dict[str, Any]] = []
        self._folder = folder
        self._count = 0
        self.end_at(1 << 62)

    def end_at(self, step: int) -> None:
        """Let all ranks end after so many steps, which none has made yet."""
        new = self.end.with_suffix(".new")
        new.write_text(str(step))
        new.replace(self.end)

    def environment(self) -> dict[str, str]:
        """That of a rank."""
        path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)])
        own = {"PYTHONPATH": path, "SUMWIRE_SERVICE": self.address, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        return programs.environment(own)

    @contextlib.contextmanager
    def service(self) -> Iterator[None]:
        """Run `sumwire up`."""
        hosts = ",".join([self.address] * RANKS)
        words = ["up", "--hosts", hosts, "--elastic", "1", "--aggregator", self.address, "--listen", self.address]
        with (self._folder / "up.log").open("w") as log:
            up = subprocess.Popen(
                programs.module("sumwire", *words), env=self.environment(), stdout=log, stderr=subprocess.STDOUT
            )
        try:
            yield
        finally:
            for one in self.ranks.values():
                one.kill()
            up.terminate()
            up.wait(_HANGS_S)

    def start(self) -> int:
        """Start a rank, and return its number among all that were started."""
        number, self._count = self._count, self._count + 1
        words = programs.module("sumwire_lab.experiments.elastic", "share", str(self.end))
        with (self._folder / f"rank{number}.log").open("w") as log:
            one = subprocess.Popen(words, env=self.environment(), stdout=subprocess.PIPE, stderr=log, text=True)
        self.ranks[number] = one
        threading.Thread(target=self._read, args=(number, one), daemon=True).start()
        return number

    def kill(self, number: int) -> float:
        """Kill a rank without a word, and return when."""
        one = self.ranks.pop(number)
        one.send_signal(signal.SIGKILL)
        at = time.monotonic()
        one.wait()
        return at

    def _read(self, number: int, one: subprocess.Popen[str]) -> None:
        assert one.stdout is not None
        for line in one.stdout:
            if line.startswith("{"):
                self.said.put((number, json.loads(line)))
        self.said.put((number, {"status": one.wait()}))

    def _logs(self) -> str:
        return "".join(path.read_text()[-600:] for path in sorted(self._folder.glob("*.log")))

    def next(self, what: str) -> tuple[int, dict[str, Any]]:
        """Return the next line, and its rank's number. Raises LabError."""
        while True:
            try:
                number, told = self.said.get(timeout=_HANGS_S)
            except queue.Empty:
                raise LabError(f"nothing within {_HANGS_S:.0f} s: {what}; {self._logs()}") from None
            if "status" not in told:
                self.lines.append(told)
                return number, told
            if number in self.ranks and told["status"]:
                raise LabError(f"rank {number} has ended with {told['status']}: {what}; {self._logs()}")

    def until_each(self, what: str, members: int, more: int = 0) -> dict[int, dict[str, Any]]:
        """Wait until each rank has made a step of so many members, and `more` steps later. Returns the first ones."""
        first: dict[int, dict[str, Any]] = {}
        while True:
            number, told = self.next(what)
            if number in self.ranks and told.get("counts") and told["ranks"] == members:
                first.setdefault(number, told)
                if first.keys() == self.ranks.keys() and told["step"] >= more + max(t["step"] for t in first.values()):
                    return first


def measured(kills: int, seed: int = 1) -> dict[str, Any]:
    """Kill so many ranks, one after the other, each replaced by a new one; every other time the one that came first.

    Returns the seconds for which the others made no step, and the rest of what :func:`share` tells. Raises LabError.
    """
    drawn = random.Random(seed)
    resumed_s: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        running = Programs(Path(folder))
        with running.service():
            for _ in range(RANKS):
                running.start()
            running.until_each("all ranks at the start", RANKS, _STEPS_APART)
            for kill in range(kills):
                time.sleep(drawn.uniform(0, _MOMENTS_S))
                victim = min(running.ranks) if kill % 2 else drawn.choice(sorted(running.ranks))
                at = running.kill(victim)
                first = running.until_each(f"the others after kill {kill}", RANKS - 1)
                resumed_s.append(max(told["at"] for told in first.values()) - at)
                running.start()
                running.until_each(f"a new rank after kill {kill}", RANKS, _STEPS_APART)
            steps = max(told["step"] for told in running.lines) + _STEPS_APART
            running.end_at(steps)
            ends: list[dict[str, Any]] = []
            while len(ends) < RANKS:
                _, told = running.next("the end")
                ends += [told] if "end" in told else []
    counted = [told for told in running.lines if told.get("counts")]
    return {
        "kills": kills,
        "resumed_s": resumed_s,
        "steps": steps,
        "discarded": len({told["step"] for told in running.lines if not told.get("counts", True)}),
        "checked": sum("lost" in told for told in counted),
        "lost": max(told.get("lost", 0.0) for told in counted),
        "error": max(told.get("error", 0.0) for told in counted),
        "equal": len({told["parameters"] for told in ends}) == 1 and {told["end"] for told in ends} == {steps},
        "accuracy": ends[0]["accuracy"],
        "uninterrupted": uninterrupted(steps),
        "until_first": uninterrupted(_STEPS_APART),
    }


if __name__ == "__main__":
    if sys.argv[1] == "share":
        share(Path(sys.argv[2]))
    else:
        _say(measured(*map(int, sys.argv[1:])))
