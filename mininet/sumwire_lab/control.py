# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The control plane's part of a run: configuration out of the plan, applied; the job file for the workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import sumwire_controller
import yaml
from sumwire.codec import tables
from sumwire_controller.jobfile import job_json

from sumwire_lab.topology import AGGREGATOR_IP, AGGREGATOR_MAC, Star

CONFIGURATION: Final = "controller.yaml"
JOB: Final = "digits"
JOB_ID: Final = 1
SLOTS: Final = 256
# Two jobs that only malformed packets are sent to: see malformed.py.
ODD_ID: Final = 2
NARROW_ID: Final = 3
_SIDE_SLOTS: Final = 2
BITS_MAX: Final = 4
P: Final = 1 / 32
# A slot's sum has 8 planes.
SUM_MAX: Final = 255
GRANULARITY_DEFAULT: Final = 30


def thc_table(workers: int) -> list[int]:
    """The solver's table for as many workers: 4 bits and granularity 30, or less where the sums would overflow."""
    granularity = min(GRANULARITY_DEFAULT, SUM_MAX // workers)
    bits = min(BITS_MAX, (granularity + 1).bit_length() - 1)
    return [int(value) for value in tables.solve(bits, granularity, P).values]


def configuration(star: Star, grpc: str, device_id: int, side_jobs: bool = False) -> dict[str, Any]:
    """What the controller reads as YAML: every host forwards, all of them are workers of one job.

    `side_jobs` adds the two jobs that malformed packets are sent to.
    """
    names = [host.name for host in star.hosts]
    table = thc_table(len(names))
    thc = {"bits": (len(table) - 1).bit_length(), "p": P, "table": table}

    def job(name: str, number: int, ops: list[str], base: int, count: int) -> dict[str, Any]:
        slots = {"base": base, "count": count}
        return {"name": name, "id": number, "ops": ops, "workers": names, "slots": slots, "thc": thc}

    jobs = [job(JOB, JOB_ID, ["thc", "max32"], 0, SLOTS)]
    if side_jobs:
        jobs.append(job("odd", ODD_ID, ["thc", "max32"], SLOTS, _SIDE_SLOTS))
        jobs.append(job("narrow", NARROW_ID, ["thc"], SLOTS + _SIDE_SLOTS, _SIDE_SLOTS))
    return {
        "switch": {"name": "s1", "grpc": grpc, "device_id": device_id},
        "aggregator": {"ip": AGGREGATOR_IP, "mac": AGGREGATOR_MAC},
        "ports": [host.port for host in star.hosts],
        "workers": [{"name": h.name, "ip": h.ip, "mac": h.mac, "port": h.port} for h in star.hosts],
        "jobs": jobs,
    }


def install(star: Star, grpc: str, device_id: int, folder: Path, side_jobs: bool = False) -> Path:
    """Bring program and entries to the switch. Returns the job file; the configuration is kept beside it."""
    path = folder / CONFIGURATION
    path.write_text(yaml.safe_dump(configuration(star, grpc, device_id, side_jobs), sort_keys=False))
    config = sumwire_controller.load_config(path)
    sumwire_controller.apply(config)
    job_file = folder / "job.json"
    job_file.write_text(job_json(config, JOB))
    return job_file


def counters(folder: Path) -> dict[str, dict[str, int]]:
    """Packets by verdict and by reject reason, read back from the switch that was installed out of `folder`."""
    status = sumwire_controller.read_status(sumwire_controller.load_config(folder / CONFIGURATION))
    return {
        "verdicts": {name: count.packets for name, count in status.verdicts.items()},
        "rejects": {name: count.packets for name, count in status.rejects.items()},
    }
