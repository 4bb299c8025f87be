# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends random words through every op on a network of switches, and checks that all workers get the right results.

A worker ends when it has its last result. One that missed a result gets it from the switch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sumwire.transport.options import Alone, ExchangeOptions
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport
from sumwire_protocol.ops import CODES, SIGN

from sumwire_lab.bench.benchmark import network_experiment, write_record
from sumwire_lab.load import expected_words
from sumwire_lab.network import switches
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank

# All workers are started at once, but on a busy machine the last one may take long.
_JOIN_SECONDS: Final = 60.0


def exchange_all(spec: Mapping[str, int], rank: Rank) -> dict[str, Any]:
    """Return by op a digest of the result, and whether it is right; for `sign` also the share of signs drawn from each
    worker."""
    config = rank.config()
    stats = JobStats()
    ops: dict[str, Any] = {}
    with Transport(config, stats=stats) as transport:
        for op in config.ops:
            sent = [expected_words.contribution(op, k, spec["chunks"], spec["seed"]) for k in range(config.workers)]
            options = (
                ExchangeOptions()
                if ops
                else ExchangeOptions(waits_for_workers=True, timeout_policy=Alone(_JOIN_SECONDS))
            )
            results = transport.exchange(CODES[op], sent[rank.number], options=options)
            entry: dict[str, Any] = {"digest": hashlib.sha256(results.words.tobytes()).hexdigest()}
            if op == "sign":
                entry["right"] = expected_words.sign_allowed(results.words, sent)
                entry["shares"] = expected_words.sign_shares(results.words, sent)
            else:
                table = () if config.thc is None else config.thc.table
                entry["right"] = bool((results.words == expected_words.expected(op, sent, table)).all())
            entry["all_counted"] = bool((results.counts == config.workers).all())
            ops[op] = entry
    return {"ops": ops, "retransmissions": stats.retransmissions}


# More than the job has slots, so that slots are reused.
CHUNKS: Final = 400
_DEADLINE_SECONDS: Final = 300.0


def run_ops(options: RunOptions, results: Path, say: Say, chunks: int = CHUNKS) -> dict[str, Any]:
    """Return by op whether all results are right and equal; for `sign` also the largest error of a worker's share.

    Writes ops.json into a new folder of results. Raises LabError.
    """
    kind = switches.choose_for(options)
    with network_experiment(results) as folder, open_session(options, kind, folder) as session:
        told = {"chunks": chunks, "seed": options.train.seed}
        workers = session.call(exchange_all, told, _DEADLINE_SECONDS)
    record = {
        "workers": options.workers,
        "topology": options.topology,
        "switch": kind,
        "impair": options.impair,
        "chunks": chunks,
        "sign_values": SIGN.values,
        **summarize(workers),
    }
    write_record(record, folder, "ops")
    for op, entry in record["ops"].items():
        say(f"{op}: {entry}")
    return record


def summarize(workers: list[dict[str, Any]]) -> dict[str, Any]:
    """Combine the workers' reports."""
    ops: dict[str, dict[str, Any]] = {}
    for op in workers[0]["ops"]:
        entries = [worker["ops"][op] for worker in workers]
        ops[op] = {
            "right": all(entry["right"] and entry["all_counted"] for entry in entries),
            "equal": len({entry["digest"] for entry in entries}) == 1,
        }
        if "shares" in entries[0]:
            ops[op]["worst_share_error"] = max(abs(share - 1 / len(workers)) for share in entries[0]["shares"])
    return {"ops": ops, "retransmissions": sum(worker["retransmissions"] for worker in workers)}
