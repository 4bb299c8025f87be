# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compares a plain DistributedDataParallel script with the same script plus three lines of Sumwire: lines added, and
accuracy. torchrun starts the ranks, on loopback, with the aggregator beside rank 0. Rank 0 reports how many packets it
has sent."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from nativelib import programs

from sumwire_lab.errors import LabError

RANKS: Final = 4
EPOCHS: Final = 10
PLAIN: Final = Path(__file__).with_name("plain_ddp.py")
_SECONDS: Final = 600.0
# Each after the line that has these words.
_ADDED: Final = (
    ("import torch.distributed as dist", "import sumwire"),
    ("    optimizer = torch.optim.SGD", "    job = sumwire.init(aggregator='rank0')"),
    ("    job = sumwire.init", "    model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)"),
)
_SIGNS: Final = (
    (_ADDED[0][0], "from sumwire_lab.experiments import signs_alone"),
    (_ADDED[1][0], "    model.register_comm_hook(None, signs_alone.hook)"),
)


def with_sumwire(plain: str) -> str:
    """Return the script with the three added lines."""
    return _with(_ADDED, plain)


def with_signs(plain: str) -> str:
    """Return the script with the hook of :mod:`sumwire_lab.experiments.signs_alone`, which is known to be bad."""
    return _with(_SIGNS, plain)


def _with(wanted: Sequence[tuple[str, str]], plain: str) -> str:
    lines = plain.splitlines()
    for words, added in wanted:
        [place] = [number for number, line in enumerate(lines) if line.startswith(words)]
        lines.insert(place + 1, added)
    return "\n".join(lines) + "\n"


def lines_added(plain: str, changed: str) -> int:
    """Return how many lines the second text has more. Lines that it lacks count as well."""
    found = difflib.ndiff(plain.splitlines(), changed.splitlines())
    return sum(line.startswith(("+ ", "- ")) for line in found)


def measured(seeds: Sequence[int], epochs: int = EPOCHS) -> dict[str, Any]:
    """Return the lines added, and the accuracies by script and seed. Raises LabError."""
    with tempfile.TemporaryDirectory() as folder:
        made = scripts(Path(folder))
        accuracies: dict[str, list[float]] = {name: [] for name in made}
        for seed in seeds:
            for name, script in made.items():
                accuracies[name].append(_accuracy(script, seed, epochs))
    plain = PLAIN.read_text()
    return {"lines": lines_added(plain, with_sumwire(plain)), **accuracies}


def scripts(folder: Path) -> dict[str, Path]:
    """Write the three scripts into a folder. Returns their paths by name."""
    plain, made = PLAIN.read_text(), dict[str, Path]()
    for name, text in (("gloo", plain), ("sumwire", with_sumwire(plain)), ("signs", with_signs(plain))):
        # A script of the package's name would be imported in its place.
        made[name] = folder / f"with_{name}.py"
        made[name].write_text(text)
    return made


def _accuracy(script: Path, seed: int, epochs: int) -> float:
    found, status, said = by_torchrun(script, RANKS, (str(seed), str(epochs)), _SECONDS)
    if status or len(found) != 1:
        raise LabError(f"{script.name} ended with {status}: {said[-800:]}")
    return float(found[0]["accuracy"])


def by_torchrun(
    script: Path, ranks: int, words: Sequence[str], seconds: float
) -> tuple[list[dict[str, Any]], int, str]:
    """Run a script as ranks on loopback. Return the lines of JSON that it prints, the exit status, and stderr. Raises
    subprocess.TimeoutExpired after so many seconds."""
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        programs.starter("torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(script), *words),
        env={**environment, "SUMWIRE_ADDRESS": own_address()},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return found, done.returncode, done.stderr


def own_address() -> str:
    """Return a loopback address that no other process of this machine has by this rule."""
    return f"127.{3 + os.getpid() // 254 % 252}.{1 + os.getpid() % 254}.1"
