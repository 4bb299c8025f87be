# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compares a tree of aggregators with a single one, for the same workers: results, bytes at the root, CPU time,
seconds.

The root aggregator runs in a network namespace, so its interface counts the bytes that reach the root. The leaves and
the workers (one process each) use addresses of this machine, outside the namespace. Needs root.

    python -m sumwire_lab.experiments.aggregator_tree WORKERS LEAVES TURNS
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import sumwire
import torch
from sumwire.codec.sum32 import Sum32Codec
from sumwire.config import parse_job
from sumwire.start import supervisor
from sumwire.start.job_request import JobRequest, job_file_for, tree_job_file

from sumwire_lab.experiments.loopback import forked

VALUES: Final = 1_000_000
_MEANS: Final = 20
_SECONDS: Final = 120.0
# What is summed how: 32-bit numbers, whose sum is exact, and indices of THC's table.
WAYS: Final = ("exact", "thc")
_PREFIX: Final = "10.98.76"
_ROOT: Final = f"{_PREFIX}.250"


@dataclass(frozen=True)
class _Taken:
    """Cost of all means of one codec: bytes to and from the root, CPU seconds of the root, and seconds of a mean."""

    received: float
    sent: float
    cpu: float
    seconds: float


def measured(workers: int, leaves: int, turns: int) -> dict[str, Any]:
    """Return, by shape (``flat``, ``tree``) and way, the medians of ``turns`` turns, and whether all results are
    bit-equal. Raises ProcessDiedError."""
    hosts = [f"{_PREFIX}.{1 + worker}" for worker in range(workers)]
    by_leaf = {f"{_PREFIX}.{200 + leaf}": hosts[leaf::leaves] for leaf in range(leaves)}
    shapes = {
        "flat": job_file_for(hosts, _ROOT, JobRequest()),
        "tree": tree_job_file(by_leaf, _ROOT, JobRequest()),
    }
    took: dict[str, list[dict[str, _Taken]]] = {shape: [] for shape in shapes}
    results: dict[str, set[str]] = {way: set() for way in WAYS}
    with _root_apart([*hosts, *by_leaf]) as (namespace, interface):
        for _ in range(turns):
            for shape, job in shapes.items():
                places = [_ROOT] if shape == "flat" else [_ROOT, *by_leaf]
                took[shape].append(_one(job, places, workers, (namespace, interface), results))
    return {
        "workers": workers,
        "leaves": leaves,
        "values": VALUES,
        "same": {way: len(found) == 1 for way, found in results.items()},
        **{shape: {way: _medians([turn[way] for turn in of]) for way in WAYS} for shape, of in took.items()},
    }


def _medians(turns: list[_Taken]) -> dict[str, Any]:
    """Bytes and CPU seconds are those of one mean."""
    return {
        "received": round(median(one.received for one in turns) / _MEANS),
        "sent": round(median(one.sent for one in turns) / _MEANS),
        "cpu_s": round(median(one.cpu for one in turns) / _MEANS, 4),
        "seconds": round(median(one.seconds for one in turns), 4),
        "seconds_of_turns": [round(one.seconds, 4) for one in turns],
    }


@contextmanager
def _root_apart(addresses: list[str]) -> Iterator[tuple[str, str]]:
    """A namespace with the root's address, and the interface towards it, which has all others."""
    namespace, near = f"sw{os.getpid()}-root", f"swt{os.getpid()}"
    with ExitStack() as stack:
        _ip("netns", "add", namespace)
        stack.callback(_ip, "netns", "del", namespace)
        _ip("link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("-n", namespace, "address", "add", f"{_ROOT}/24", "dev", "eth0")
        _ip("-n", namespace, "link", "set", "eth0", "up")
        for address in addresses:
            _ip("address", "add", f"{address}/24", "dev", near)
        _ip("link", "set", near, "up")
        yield namespace, near


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _one(
    job: Mapping[str, Any], places: list[str], workers: int, root: tuple[str, str], results: dict[str, set[str]]
) -> dict[str, _Taken]:
    """Start aggregators and workers, and end them."""
    namespace, interface = root
    # The one more is this process, which reads counters between the ways.
    meet = multiprocessing.get_context("fork").Barrier(workers + 1, timeout=_SECONDS)
    running: list[int] = []
    taken: dict[str, _Taken] = {}

    def serve(stack: ExitStack) -> None:
        for place in places:
            inside = ["ip", "netns", "exec", namespace] if place == _ROOT else []
            at = ["--at", place] if len(places) > 1 else []
            command = [*inside, *supervisor.here(*at, "--log-level", "warning")]
            running.append(stack.enter_context(supervisor.started(command, job, lambda _: None)).pid)

    def watch() -> None:
        taken.update(_watched(running[0], interface, meet))

    work = partial(_work, job, meet)
    for digests in forked(workers, work, serve, group=False, meanwhile=watch):
        for way, digest in digests.items():
            results[way].add(digest)
    return taken


def _watched(pid: int, interface: str, meet: Any) -> dict[str, _Taken]:
    """What each way takes, between the barriers around it."""
    taken = {}
    for way in WAYS:
        meet.wait()
        before, begun = _counters(pid, interface), time.monotonic()
        meet.wait()
        seconds = (time.monotonic() - begun) / _MEANS
        received, sent, cpu = (now - then for now, then in zip(_counters(pid, interface), before, strict=True))
        taken[way] = _Taken(received, sent, cpu, seconds)
    return taken


def _counters(pid: int, interface: str) -> tuple[float, float, float]:
    """Bytes to the root, bytes from it, and its CPU seconds."""
    statistics = Path("/sys/class/net", interface, "statistics")
    to, back = (int((statistics / name).read_text()) for name in ("tx_bytes", "rx_bytes"))
    return to, back, _cpu_s(pid)


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a program and of the programs that it has started."""
    # The name before may have spaces; user and system time are 12th and 13th after it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_cpu_s(one) for one in _children(pid))


def _children(pid: int) -> list[int]:
    return [int(found) for of in Path(f"/proc/{pid}/task").iterdir() for found in (of / "children").read_text().split()]


def _work(job: Mapping[str, Any], meet: Any, worker: int, _: None) -> dict[str, str]:
    """A worker: digests of its means by way."""
    config = parse_job(job, worker)
    tensor = torch.randn(VALUES, generator=torch.Generator().manual_seed(worker))
    digests = {}
    with sumwire.Job(config, fallback="never", deadline_s=_SECONDS) as one:
        exact = Sum32Codec(workers=config.workers)
        for way in WAYS:
            meet.wait()
            digest = hashlib.sha256()
            for number in range(_MEANS):
                mean = one.reduce(tensor, number)[0] if way == "thc" else one.reduce_with(exact, tensor)[0]
                digest.update(mean.numpy().tobytes())
            meet.wait()
            digests[way] = digest.hexdigest()
    return digests


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(*map(int, sys.argv[1:4]))) + "\n")
