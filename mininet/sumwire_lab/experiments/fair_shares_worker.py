# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The processes of `fair_shares`: the first one prepares the link, and starts the aggregator and the workers."""

from __future__ import annotations

import itertools
import json
import math
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final
from unittest import mock

from sumwire_lab.errors import ProcessDiedError
from sumwire_lab.experiments.fair_shares import FairShares, Shares
from sumwire_lab.network.offloads import off_command
from sumwire_lab.network.shaping import shaping_commands
from sumwire_lab.options.run_options import LinkOptions

_DEVICE: Final = "lo"
_ADDRESS: Final = "127.0.0.1"
_WORKERS: Final = 2
_SLOTS: Final = 512
_PORT: Final = 22000
# No packet is lost: windows alone divide the link.
_QUEUE_PACKETS: Final = 100_000


def prepare(options: FairShares) -> None:
    """Make the namespace's device the link."""
    link = LinkOptions(options.mbit, queue_packets=_QUEUE_PACKETS)
    up = ["ip", "link", "set", _DEVICE, "mtu", "1500", "up"]
    for command in (up, off_command(_DEVICE), *shaping_commands(_DEVICE, link)):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def write_job(number: int, folder: Path) -> Path:
    port = _PORT + 100 * number
    addresses = [
        {"worker": worker, "ip": _ADDRESS, "udp_port": port + 10 * worker, "aggregator": _ADDRESS, "seat": worker}
        for worker in range(_WORKERS)
    ]
    job = {"format": 2, "name": f"job{number}", "job": number, "ops": ["thc", "max32", "sum32"], "workers": _WORKERS}
    path = folder / f"job{number}.json"
    path.write_text(json.dumps({**job, "quorum": _WORKERS, "slots": _SLOTS, "addresses": addresses}))
    return path


def start_aggregator(jobs: Sequence[Path]) -> subprocess.Popen[str]:
    """Returns when it is ready. Raises ProcessDiedError."""
    command = [sys.executable, "-m", "sumwire.aggregator.cli", *map(str, jobs)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if not process.stdout.readline().startswith("ready"):
        process.wait()
        raise ProcessDiedError("the aggregator of jobs that share a link did not start; see what it wrote above")
    return process


def work(path: str, worker: int, options: FairShares, asked: Any) -> None:
    """One worker. It sums without end after the first word of ``asked``, and answers the others with the number of
    contributions that it has sent."""
    import sumwire
    import torch
    from sumwire.transport import congestion
    from sumwire.transport.delivery import Delivery

    torch.set_num_threads(1)
    above_s = congestion.DRAIN_ABOVE_S if options.drains else math.inf
    with (
        mock.patch.object(congestion, "DRAIN_ABOVE_S", above_s),
        sumwire.Job(sumwire.load_job(path, worker), delivery=Delivery()) as job,
    ):

        def answer() -> None:
            while True:
                asked.recv()
                asked.send(job.stats.packets_sent)

        asked.send("ready")
        asked.recv()
        threading.Thread(target=answer, daemon=True).start()
        while True:
            sumwire.all_reduce(torch.zeros(options.values), job)


def start_job(path: Path, options: FairShares) -> Mapping[BaseProcess, Connection]:
    """The workers of a job, ready to begin, and the way to ask each."""
    context = multiprocessing.get_context("spawn")
    workers: dict[BaseProcess, Connection] = {}
    for worker in range(_WORKERS):
        here, there = context.Pipe()
        process = context.Process(target=work, args=(str(path), worker, options, there), daemon=True)
        process.start()
        # Its death then ends the pipe.
        there.close()
        workers[process] = here
    for pipe in workers.values():
        pipe.recv()
    return workers


def count(jobs: Sequence[Mapping[BaseProcess, Connection]]) -> list[int]:
    """What the first worker of each job has sent."""
    first = [next(iter(job.values())) for job in jobs]
    for pipe in first:
        pipe.send("now")
    return [pipe.recv() for pipe in first]


def run(options: FairShares, jobs: Sequence[Mapping[BaseProcess, Connection]]) -> Shares:
    for number, job in enumerate(jobs):
        for pipe in job.values():
            pipe.send("begin")
        time.sleep(options.apart_s if number + 1 < len(jobs) else options.settles_s)
    before, since = count(jobs), time.monotonic()
    time.sleep(options.counts_s)
    after, until = count(jobs), time.monotonic()
    return Shares([(b - a) / (until - since) for a, b in zip(before, after, strict=True)])


def main(arguments: list[str]) -> None:
    options = FairShares(**json.loads(arguments[0]))
    prepare(options)
    with tempfile.TemporaryDirectory() as folder:
        paths = [write_job(number, Path(folder)) for number in range(1, options.jobs + 1)]
        aggregator = start_aggregator(paths)
        jobs: list[Mapping[BaseProcess, Connection]] = []
        try:
            jobs.extend(start_job(path, options) for path in paths)
            shares = run(options, jobs)
        except (EOFError, BrokenPipeError) as error:
            raise ProcessDiedError("a worker has ended; see what it wrote above") from error
        finally:
            for process in itertools.chain(*jobs):
                process.kill()
                process.join()
            aggregator.terminate()
            aggregator.communicate()
    sys.stdout.write(json.dumps(asdict(shares)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
