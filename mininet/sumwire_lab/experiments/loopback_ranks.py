# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes of this machine, with addresses on loopback, a gloo group, and a software aggregator."""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import sumwire
from sumwire.start import child

from sumwire_lab.errors import ProcessDiedError

_SECONDS: Final = 3600.0
_SLOTS: Final = 512
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class _Meeting:
    """What the ranks need to know: ``go`` is set once there is an aggregator."""

    folder: Path
    go: Any
    answers: Any


def on_loopback(ranks: int, work: Callable[[sumwire.Job], _Answer], *, ops: Sequence[str]) -> list[_Answer]:
    """What ``work(job)`` returns on each rank, in any order. To be called by a process that has used no torch threads.

    Raises ProcessDiedError if a rank fails.
    """
    network = f"127.{6 + os.getpid() // 254 % 249}.{1 + os.getpid() % 254}"
    job = {
        "format": 3, "name": "loopback", "job": 1, "ops": [*ops], "slots": _SLOTS, "aggregator": f"{network}.250",
        "hosts": [f"{network}.{1 + rank}" for rank in range(ranks)],
    }  # fmt: skip
    # Forked, so that torch is loaded once.
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "job.json").write_text(json.dumps(job))
        go, answers = context.Event(), context.SimpleQueue()
        processes = [
            context.Process(target=_rank, args=(rank, ranks, _Meeting(folder, go, answers), work))
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        stack.callback(_end, processes)
        stack.enter_context(child.Aggregator(child.here("--log-level", "warning"), job, lambda _: None))
        go.set()
        for process in processes:
            process.join(_SECONDS)
            if process.exitcode != 0:
                raise ProcessDiedError(f"a rank of {ranks} ended with {process.exitcode}; see what it wrote above")
        return [answers.get() for _ in processes]


def _end(processes: list[Any]) -> None:
    for process in processes:
        if process.is_alive():
            process.kill()
        process.join()


def _rank(rank: int, ranks: int, meeting: _Meeting, work: Callable[[sumwire.Job], Any]) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meeting.go.wait()
    patience = timedelta(seconds=_SECONDS)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting.folder}/store", rank=rank, world_size=ranks, timeout=patience
    )
    with sumwire.Job(sumwire.load_job(meeting.folder / "job.json", worker=rank)) as job:
        meeting.answers.put(work(job))
    dist.destroy_process_group()
