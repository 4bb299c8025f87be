# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Configurations for the controller's tests, as plain data that a test changes before it is written as YAML."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import getitem
from typing import Any

import yaml

# Hundreds of texts: libyaml's writer, where PyYAML has it, takes a tenth of the time.
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
PUBLISHED_TABLE = [0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30]


def worker(k: int) -> dict[str, Any]:
    """Host number k, from 1, behind port k."""
    return {"name": f"h{k}", "ip": f"10.0.0.{k}", "mac": f"00:00:00:00:00:{k:02x}", "port": k}


def job(name: str, number: int, workers: int, base: int, count: int, ops: str = "max32") -> dict[str, Any]:
    """A job of the first `workers` hosts; `ops` is a list separated by spaces."""
    described: dict[str, Any] = {
        "name": name,
        "id": number,
        "ops": ops.split(),
        "workers": [f"h{k}" for k in range(1, workers + 1)],
        "slots": {"base": base, "count": count},
    }
    if "thc" in described["ops"]:
        described["thc"] = {"bits": 4, "p": 0.03125, "table": list(PUBLISHED_TABLE)}
    return described


def queue(port: int, **other: Any) -> dict[str, Any]:
    """A virtual queue of 20 Mbit/s; `other` are keys to add or to replace."""
    return {
        "port": port,
        "rate_mbit": 20,
        "mark_bytes": 8000,
        "drop_bytes": [4000, 6000, 9000, 12000],
        "drop_all_bytes": 20000,
        **other,
    }


def star(workers: int = 4, jobs: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A switch with hosts on ports 1.. and, by default, the job `digits` over all of them."""
    return {
        "switch": {"name": "s1", "grpc": "127.0.0.1:9559", "device_id": 1},
        "aggregator": {"ip": "10.0.0.100", "mac": "02:53:57:00:00:64"},
        "ports": list(range(1, workers + 1)),
        "workers": [worker(k) for k in range(1, workers + 1)],
        "jobs": [job("digits", 1, workers, 0, 256, "thc max32")] if jobs is None else jobs,
    }


def text(data: object) -> str:
    """YAML of plain data."""
    return yaml.dump(data, Dumper=DUMPER, sort_keys=False)


# -- changes of such data --------------------------------------------------------------------------------

Change = Callable[[Any], object]


def put(*path: str | int, to: object) -> Change:
    """A change that sets the value at a path of keys and indices."""
    return lambda data: reduce(getitem, path[:-1], data).__setitem__(path[-1], to)


def drop(*path: str | int) -> Change:
    return lambda data: reduce(getitem, path[:-1], data).__delitem__(path[-1])
