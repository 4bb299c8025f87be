# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tests whether real switches merge signs without bias, with a job for every number of workers from 2 to 16."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np
from sumwire.multihop.statistics import Outcome, Signs, measure
from sumwire_protocol.ops import SIGN

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.bias_worker import DEADLINE_SECONDS, VALUES, BiasSpec
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric, HostPlan
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system import leftovers

SIZES: Final = tuple(range(2, SIGN.workers_max + 1))
ROUNDS: Final = 512
_SLOTS: Final = 128
_MBIT: Final = 1000.0


def run_bias(
    topology: str, switch: str, results: Path, say: Say, *, sizes: tuple[int, ...] = SIZES, rounds: int = ROUNDS
) -> list[Outcome]:
    """One outcome for each number of workers. Raises LabError, also if workers got different results."""
    require_tools()
    options = RunOptions(workers=max(sizes), topology=topology, switch=switch, link=LinkOptions(_MBIT))
    kind = switches.choose(switch)
    folder = new_folder(results, latest=False)
    leftovers.clean()
    with interruptible():
        merged = _merge(options, kind, folder, sizes, rounds)
        outcomes = [measure(signs[:rounds], signs[rounds:], size) for size, signs in merged]
    record = {"topology": topology, "switch": kind, "outcomes": [_plain(outcome) for outcome in outcomes]}
    (folder / "bias.json").write_text(json.dumps(record, indent=1) + "\n")
    for outcome in outcomes:
        say(str(outcome))
    return outcomes


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else float(value) for name, value in vars(outcome).items()}


def members(fabric: Fabric, size: int) -> list[HostPlan]:
    """Hosts of a job of this size, taken from all leaves in turn, so that every leaf has one."""
    by_leaf = [[host for host in fabric.hosts if host.switch == s.name] for s in fabric.switches]
    in_turn = chain.from_iterable(zip_longest(*(hosts for hosts in by_leaf if hosts)))
    return [host for host in in_turn if host is not None][:size]


def jobs_of(fabric: Fabric, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """A SIGN job for each size."""
    jobs = []
    for number, size in enumerate(sizes):
        entry = control_plane.job(fabric, f"bias{size}", number + 1, ["sign"], base=number * _SLOTS, count=_SLOTS)
        jobs.append({**entry, "workers": [host.name for host in members(fabric, size)]})
    return jobs


def _merge(
    options: RunOptions, kind: str, folder: Path, sizes: tuple[int, ...], rounds: int
) -> Iterator[tuple[int, Signs]]:
    with open_session(options, kind, folder, lambda fabric: jobs_of(fabric, sizes)) as session:
        hosts = session.fabric.hosts
        chosen = [[host.name for host in members(session.fabric, size)] for size in sizes]
        spec = BiasSpec(
            job_files=[str(path) for path in session.job_files.values()],
            workers=[[job.index(host.name) if host.name in job else -1 for host in hosts] for job in chosen],
            rounds=rounds,
            results=str(folder),
        )
        path = folder / "spec.json"
        spec.save(path)
        session.run_workers("sumwire_lab.experiments.bias_worker", path, DEADLINE_SECONDS)
    for number, size in enumerate(sizes):
        digests = {(folder / f"digest{number}-{worker}").read_text() for worker in range(size)}
        if len(digests) != 1:
            raise LabError(f"{size} workers were given {len(digests)} different results; see {folder}")
        merged = np.frombuffer((folder / f"merged{number}").read_bytes(), np.uint8).reshape(-1, VALUES // 8)
        yield size, np.unpackbits(merged, axis=1).astype(np.bool_)
