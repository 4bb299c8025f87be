# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reduces tensors and records how long each took: `python -m sumwire_lab.experiments.failover_worker SPEC.json
RANK`."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import sumwire
import torch

from sumwire_lab.system.processes import end_with_parent


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, rank = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    torch.set_num_threads(1)
    digest, seconds = hashlib.sha256(), []
    generator = torch.Generator().manual_seed(rank)
    config = sumwire.load_job(spec["job_file"], worker=rank)
    with sumwire.Job(config, fallback="never") as job, Path(spec["counts"][rank]).open("wb", buffering=0) as counts:
        for _ in range(spec["operations"]):
            tensor = torch.randn(spec["values"], generator=generator)
            began = time.perf_counter()
            mean, _residual = job.reduce(tensor)
            seconds.append(time.perf_counter() - began)
            digest.update(mean.numpy().tobytes())
            # One byte per operation, so that the experiment can see how far this worker is.
            counts.write(b".")
        stats = job.stats.as_dict()
        record = {"seconds": seconds, "digest": digest.hexdigest(), "fallbacks": stats["fallbacks"]}
        Path(spec["results"][rank]).write_text(json.dumps(record))


if __name__ == "__main__":
    main(sys.argv[1:])
