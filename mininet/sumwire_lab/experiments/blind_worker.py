# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One rank of the experiment on blind jobs."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

CODECS: Final = ("thc", "sum32")


@dataclass(frozen=True)
class BlindSpec:
    """``mapping``: the job file of the open job. ``means``: of so many ``values`` are made in each of ``blocks`` jobs
    and with each codec, in an open and a blind job by turns. ``store``: of the process group."""

    mapping: dict[str, Any]
    values: int
    means: int
    blocks: int
    store: str


def work(rank: int, spec: BlindSpec, pipe: Connection) -> None:
    """Send a record of each job: codec, whether it is blind, a digest of the means' bits, seconds of processor time.

    Waits before each job for a word of the other end.
    """
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    ranks = spec.mapping["workers"]
    dist.init_process_group("gloo", init_method=f"file://{spec.store}", rank=rank, world_size=ranks)
    for _ in range(spec.blocks):
        for codec in CODECS:
            for blind in (False, True):
                pipe.recv()
                pipe.send({"codec": codec, "blind": blind, **_block(rank, spec, codec, blind=blind)})
    dist.destroy_process_group()


def _block(rank: int, spec: BlindSpec, codec: str, *, blind: bool) -> dict[str, Any]:
    import torch
    from sumwire.config import parse_job
    from sumwire.job.job import Job

    config = parse_job({**spec.mapping, "blind": blind}, rank)
    x = torch.randn(spec.values, generator=torch.Generator().manual_seed(rank))
    digest, seconds = hashlib.sha256(), 0.0
    with Job(config) as job:
        for number in range(1 + spec.means):
            began = time.process_time()
            mean = job.reduce(x)[0] if codec == "thc" else job.mean(x)
            # The first one greets, and finds memory.
            seconds += (time.process_time() - began) * (number > 0)
            digest.update(mean.numpy().tobytes())
    return {"digest": digest.hexdigest(), "cpu_s": seconds}
