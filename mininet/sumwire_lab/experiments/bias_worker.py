# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A host that merges known signs in many rounds, in one job after the other.

Run as `python -m sumwire_lab.experiments.bias_worker SPEC.json RANK`. Each chunk of SIGN is one round of the bias test.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from sumwire.config import load_job
from sumwire.multihop.statistics import lone_signs, signs_of
from sumwire.transport.options import ExchangeOptions
from sumwire.transport.patience import Alone
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SIGN

from sumwire_lab.system.processes import end_with_parent

VALUES: Final = SIGN.values
DEADLINE_SECONDS: Final = 600.0
"""Of all jobs together. A worker of the largest job alone waits for the others during all smaller ones, on bmv2 for
minutes."""


@dataclass(frozen=True)
class BiasSpec:
    """The jobs, in their order: job files, and the worker number of each host (-1: not in the job)."""

    job_files: list[str]
    workers: list[list[int]]
    """Worker numbers by job and host."""
    rounds: int
    results: str
    """Folder for the merged signs, which worker 0 of a job writes, and for every worker's digest of them."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> BiasSpec:
        return cls(**json.loads(path.read_text()))


def merge(job_file: str, worker: int, rounds: int) -> bytes:
    """Merged signs, packed, 1024 bytes per round: `rounds` rounds with mixed signs, then half as many with lone
    signs."""
    config = load_job(job_file, worker=worker)
    inputs = ((signs_of, rounds), (lone_signs, rounds // 2))
    rows = [np.tile(np.packbits(make(config.workers, VALUES)[worker]), (count, 1)) for make, count in inputs]
    payload = np.concatenate(rows).reshape(-1, SIGN.up.words, p4.WORD_BYTES)
    with Transport(config) as transport:
        options = ExchangeOptions(waits_for_workers=True, patience=Alone(DEADLINE_SECONDS))
        return transport.exchange(SIGN.code, payload, options=options).words.tobytes()


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, rank = BiasSpec.load(Path(arguments[0])), int(arguments[1])
    folder = Path(spec.results)
    for number, (job_file, workers) in enumerate(zip(spec.job_files, spec.workers, strict=True)):
        worker = workers[rank]
        if worker < 0:
            continue
        merged = merge(job_file, worker, spec.rounds)
        if worker == 0:
            (folder / f"merged{number}").write_bytes(merged)
        (folder / f"digest{number}-{worker}").write_text(hashlib.sha256(merged).hexdigest())


if __name__ == "__main__":
    main(sys.argv[1:])
