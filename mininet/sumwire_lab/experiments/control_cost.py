# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a job's control thread costs: `python -m sumwire_lab.experiments.control_cost`.

Ranks with a gloo group on loopback do nothing but sleep, first without and then with a control thread. Prints one JSON
row: milliseconds of CPU per second and rank in both, and of one round.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

DEFAULT_RANKS = 4
DEFAULT_SECONDS = 30.0


def main(arguments: list[str]) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="What a job's control thread costs.")
    parser.add_argument("--ranks", type=int, default=DEFAULT_RANKS)
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS)
    given = parser.parse_args(arguments)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(given.ranks):
            ours, theirs = context.Pipe()
            store = str(Path(folder) / "store")
            process = context.Process(target=_rank, args=(rank, given.ranks, given.seconds, store, theirs))
            process.start()
            pipes.append(ours)
            processes.append(process)
        rows = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join()
    without, with_control = (sum(row[at] for row in rows) / len(rows) for at in (0, 1))
    row = {
        "ranks": given.ranks,
        "cpu_ms_per_s_without": round(without, 3),
        "cpu_ms_per_s_with": round(with_control, 3),
        "share_of_a_core": round((with_control - without) / 1000, 5),
    }
    sys.stdout.write(json.dumps(row) + "\n")


def _rank(rank: int, ranks: int, seconds: float, store: str, pipe: Connection) -> None:
    import torch.distributed as dist
    from sumwire.job.agreement import Agreement
    from sumwire.job.control import Control
    from sumwire.job.kept_results import KeptResults
    from sumwire.transport.stats import JobStats

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    without = _cpu_ms_per_s(seconds)
    control = Control("cost", rank, Agreement("cost", ranks), KeptResults(most=1, most_bytes=0), JobStats())
    control.start()
    pipe.send((without, _cpu_ms_per_s(seconds)))
    control.close()
    dist.destroy_process_group()


def _cpu_ms_per_s(seconds: float) -> float:
    began, cpu = time.monotonic(), time.process_time()
    threading.Event().wait(seconds)
    return (time.process_time() - cpu) * 1000 / (time.monotonic() - began)


if __name__ == "__main__":
    main(sys.argv[1:])
