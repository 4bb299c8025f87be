# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The job file: what a training host must know about its job, as JSON."""

from __future__ import annotations

import json
from typing import Any, Final

from sumwire_controller.config import Config, Job
from sumwire_controller.errors import UnknownJobError

FORMAT: Final = 1


def find_job(config: Config, name: str) -> Job:
    """:raises UnknownJobError: the configuration has no such job."""
    for job in config.jobs:
        if job.name == name:
            return job
    known = ", ".join(job.name for job in config.jobs) or "none"
    raise UnknownJobError(f"job {name!r}: not in the configuration, which has {known}")


def job_description(config: Config, name: str) -> dict[str, Any]:
    """The job file's content, ready for JSON. Worker k's host is `addresses[k]`.

    :raises UnknownJobError: the configuration has no such job.
    """
    job = find_job(config, name)
    workers = [config.worker(worker) for worker in job.workers]
    description: dict[str, Any] = {
        "format": FORMAT,
        "name": job.name,
        "job": job.id,
        "ops": list(job.ops),
        "workers": len(workers),
        "quorum": job.quorum,
        "slots": job.slots.count,
        "aggregator": str(config.aggregator.ip),
        "addresses": [
            {"worker": k, "ip": str(worker.ip), "udp_port": worker.udp_port} for k, worker in enumerate(workers)
        ],
    }
    if job.thc is not None:
        description["thc"] = {"bits": job.thc.bits, "p": job.thc.p, "table": list(job.thc.table)}
    return description


def job_json(config: Config, name: str) -> str:
    """The job file's text."""
    return json.dumps(job_description(config, name), indent=2) + "\n"
