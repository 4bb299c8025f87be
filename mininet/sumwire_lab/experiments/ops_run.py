# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends random words through every op on a network of switches, and checks that all workers get the right results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sumwire_protocol.ops import SIGN

from sumwire_lab.experiments.ops_worker import OpsSpec
from sumwire_lab.network import switches
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system import leftovers

# More than the job has slots, so that slots are reused.
CHUNKS: Final = 400
_DEADLINE_SECONDS: Final = 300.0


def run_ops(options: RunOptions, results: Path, say: Say, chunks: int = CHUNKS) -> dict[str, Any]:
    """By op: whether all results are right and equal; for `sign` also the largest error of a worker's share.

    Writes ops.json into a new folder of results. Raises LabError.
    """
    require_tools()
    kind = switches.choose_for(options)
    folder = new_folder(results, latest=False)
    leftovers.clean()
    with interruptible():
        workers = _exchange(kind, options, folder, chunks)
    record = {
        "workers": options.workers,
        "topology": options.topology,
        "switch": kind,
        "impair": options.impair,
        "chunks": chunks,
        "sign_values": SIGN.values,
        **summarize(workers),
    }
    (folder / "ops.json").write_text(json.dumps(record, indent=1) + "\n")
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


def _exchange(kind: str, options: RunOptions, folder: Path, chunks: int) -> list[dict[str, Any]]:
    with open_session(options, kind, folder) as session:
        reports = [folder / f"worker{rank}.json" for rank in range(len(session.fabric.hosts))]
        spec = OpsSpec(str(session.job_file), chunks, options.train.seed, [str(report) for report in reports])
        path = folder / "spec.json"
        spec.save(path)
        session.run_workers("sumwire_lab.experiments.ops_worker", path, _DEADLINE_SECONDS)
    return [json.loads(report.read_text()) for report in reports]
