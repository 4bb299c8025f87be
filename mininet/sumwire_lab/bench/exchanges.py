# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark's worker on every host of a session and collects what each wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sumwire_lab.run.session import Session
from sumwire_lab.system.processes import family

REPEATS: Final = 3
_DEADLINE_SECONDS: Final = 900.0


def run_workers(session: Session, module: str, system: str, sizes: Sequence[int], **more: Any) -> list[dict[str, Any]]:
    """Run `python -m MODULE SPEC RANK` on every host. Returns the workers' records, by rank.

    The spec says which system exchanges which sizes (numbers of values) and how often; `more` is added to it.
    """
    hosts, folder = session.fabric.hosts, session.folder
    spec: dict[str, Any] = {
        "system": system,
        "sizes": list(sizes),
        "repeats": REPEATS,
        "master": hosts[0].ip,
        "interfaces": [host.host_interface for host in hosts],
        "switches": [pid for process in session.serving().values() for pid in family(process.pid)],
        "job_file": None if session.job_file is None else str(session.job_file),
        "results": [str(folder / f"worker{rank}.json") for rank in range(len(hosts))],
        **more,
    }
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    session.run_workers(module, path, _DEADLINE_SECONDS)
    return [json.loads(Path(result).read_text()) for result in spec["results"]]
