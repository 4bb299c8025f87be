# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tests whether real switches merge signs without bias, with a job for every number of workers from 2 to 16.

Each host merges known signs in many rounds, in one job after the other; each chunk of SIGN is one round of the bias
test.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np
from sumwire.config import load_job
from sumwire.multihop.statistics import Signs, SignStatistics, lone_signs, measure, signs_of
from sumwire.transport.options import Alone, ExchangeOptions
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SIGN

from sumwire_lab.bench.benchmark import network_experiment, write_record
from sumwire_lab.errors import LabError
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric, HostPlan
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank

VALUES: Final = SIGN.values
DEADLINE_SECONDS: Final = 600.0
"""Of all jobs together. A worker of the largest job alone waits for the others during all smaller ones, on bmv2 for
minutes."""


def merge(job_file: str, worker: int, rounds: int) -> bytes:
    """Return merged signs, packed, 1024 bytes per round: `rounds` rounds with mixed signs, then half as many with lone
    signs."""
    config = load_job(job_file, worker=worker)
    inputs = ((signs_of, rounds), (lone_signs, rounds // 2))
    rows = [np.tile(np.packbits(make(config.workers, VALUES)[worker]), (count, 1)) for make, count in inputs]
    payload = np.concatenate(rows).reshape(-1, SIGN.up.words, p4.WORD_BYTES)
    with Transport(config) as transport:
        options = ExchangeOptions(waits_for_workers=True, timeout_policy=Alone(DEADLINE_SECONDS))
        return transport.exchange(SIGN.code, payload, options=options).words.tobytes()


def merge_all(spec: Mapping[str, Any], rank: Rank) -> None:
    """Run a host's part in all jobs. Worker 0 of a job writes the merged signs, and every worker a digest of them."""
    folder = rank.folder
    for number, (job_file, workers) in enumerate(zip(spec["job_files"], spec["workers"], strict=True)):
        worker = workers[rank.number]
        if worker < 0:
            continue
        merged = merge(job_file, worker, spec["rounds"])
        if worker == 0:
            (folder / f"merged{number}").write_bytes(merged)
        (folder / f"digest{number}-{worker}").write_text(hashlib.sha256(merged).hexdigest())


SIZES: Final = tuple(range(2, SIGN.workers_max + 1))
ROUNDS: Final = 512
_SLOTS: Final = 128
_MBIT: Final = 1000.0


def run_bias(
    topology: str, switch: str, results: Path, say: Say, *, sizes: tuple[int, ...] = SIZES, rounds: int = ROUNDS
) -> list[SignStatistics]:
    """Return one outcome for each number of workers. Raises LabError, also if workers got different results."""
    options = RunOptions(workers=max(sizes), topology=topology, switch=switch, link=LinkOptions(_MBIT))
    kind = switches.choose(switch)
    with network_experiment(results) as folder:
        merged = _merge(options, kind, folder, sizes, rounds)
        outcomes = [measure(signs[:rounds], signs[rounds:], size) for size, signs in merged]
    record = {"topology": topology, "switch": kind, "outcomes": [_plain(outcome) for outcome in outcomes]}
    write_record(record, folder, "bias")
    for outcome in outcomes:
        say(str(outcome))
    return outcomes


def _plain(outcome: SignStatistics) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else float(value) for name, value in vars(outcome).items()}


def members(fabric: Fabric, size: int) -> list[HostPlan]:
    """Return the hosts of a job of this size, taken from all leaves in turn, so that every leaf has one."""
    by_leaf = [[host for host in fabric.hosts if host.switch == s.name] for s in fabric.switches]
    in_turn = chain.from_iterable(zip_longest(*(hosts for hosts in by_leaf if hosts)))
    return [host for host in in_turn if host is not None][:size]


def jobs_of(fabric: Fabric, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return a SIGN job for each size."""
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
        session.call(
            merge_all,
            {
                "job_files": [str(path) for path in session.job_files.values()],
                # Worker numbers by job and host; -1: not in the job.
                "workers": [[job.index(host.name) if host.name in job else -1 for host in hosts] for job in chosen],
                "rounds": rounds,
            },
            DEADLINE_SECONDS,
        )
    for number, size in enumerate(sizes):
        digests = {(folder / f"digest{number}-{worker}").read_text() for worker in range(size)}
        if len(digests) != 1:
            raise LabError(f"{size} workers were given {len(digests)} different results; see {folder}")
        merged = np.frombuffer((folder / f"merged{number}").read_bytes(), np.uint8).reshape(-1, VALUES // 8)
        yield size, np.unpackbits(merged, axis=1).astype(np.bool_)
