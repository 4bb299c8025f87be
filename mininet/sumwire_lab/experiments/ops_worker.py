# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker that sends random words through every op of its job and checks the results.

Run as `python -m sumwire_lab.experiments.ops_worker SPEC.json RANK`. It leaves when it has its last result. A worker
that missed a result gets it from the switch.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sumwire.config import load_job
from sumwire.transport.options import ExchangeOptions
from sumwire.transport.patience import Alone
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport
from sumwire_protocol.ops import CODES

from sumwire_lab.experiments import ops_expect
from sumwire_lab.system.processes import end_with_parent

# All workers are started at once, but on a busy machine the last one may take long.
_JOIN_SECONDS: Final = 60.0


@dataclass(frozen=True)
class OpsSpec:
    """What to send. `results`: one file per worker."""

    job_file: str
    chunks: int
    seed: int
    results: list[str]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> OpsSpec:
        return cls(**json.loads(path.read_text()))


def exchange_all(spec: OpsSpec, worker: int) -> dict[str, Any]:
    """By op: digest of the result, and whether it is right; for `sign` also the share of signs drawn from each
    worker."""
    config = load_job(spec.job_file, worker=worker)
    stats = JobStats()
    ops: dict[str, Any] = {}
    with Transport(config, stats=stats) as transport:
        for op in config.ops:
            sent = [ops_expect.contribution(op, k, spec.chunks, spec.seed) for k in range(config.workers)]
            options = (
                ExchangeOptions() if ops else ExchangeOptions(waits_for_workers=True, patience=Alone(_JOIN_SECONDS))
            )
            results = transport.exchange(CODES[op], sent[worker], options=options)
            entry: dict[str, Any] = {"digest": hashlib.sha256(results.words.tobytes()).hexdigest()}
            if op == "sign":
                entry["right"] = ops_expect.sign_allowed(results.words, sent)
                entry["shares"] = ops_expect.sign_shares(results.words, sent)
            else:
                table = () if config.thc is None else config.thc.table
                entry["right"] = bool((results.words == ops_expect.expected(op, sent, table)).all())
            entry["all_counted"] = bool((results.counts == config.workers).all())
            ops[op] = entry
    return {"ops": ops, "retransmissions": stats.retransmissions}


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, worker = OpsSpec.load(Path(arguments[0])), int(arguments[1])
    Path(spec.results[worker]).write_text(json.dumps(exchange_all(spec, worker)))


if __name__ == "__main__":
    main(sys.argv[1:])
