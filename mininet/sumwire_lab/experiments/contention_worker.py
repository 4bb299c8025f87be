# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker with two tensors at a time: `python -m sumwire_lab.experiments.contention_worker SPEC.json RANK`."""

from __future__ import annotations

import hashlib
import json
import select
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import sumwire
import torch
from sumwire.dlcp.lanes import Lanes

from sumwire_lab.system.processes import end_with_parent
from sumwire_lab.training.worker import settle

FRONT, BACK = 0.0, 1.0
_BACK_BUCKET, _FRONT_BUCKET = 0, 1
# One chunk, so that the greeting of every lane is over before anything is timed.
_WARM_UP_VALUES: Final = 1024


def both(lanes: Lanes, back: torch.Tensor, front: torch.Tensor, gap_s: float) -> tuple[float, bytes]:
    """Hand over the back tensor, and ``gap_s`` later the front one. Returns seconds of the front one, and both
    results."""
    first = lanes.submit(lanes.lane_of(BACK), partial(_mean, lanes, back, _BACK_BUCKET, BACK))
    select.select([], [], [], gap_s)
    began = time.monotonic()
    second = lanes.submit(lanes.lane_of(FRONT), partial(_mean, lanes, front, _FRONT_BUCKET, FRONT))
    front_mean = second.wait()
    seconds = time.monotonic() - began
    return seconds, front_mean.numpy().tobytes() + first.wait().numpy().tobytes()


def _mean(lanes: Lanes, x: torch.Tensor, bucket: int, position: float) -> torch.Tensor:
    # A copy, because the memory of a result is reused.
    return lanes.reduce(x, bucket, position)[0].clone()


def measure(spec: dict[str, Any], rank: int) -> dict[str, Any]:
    """Seconds of the front tensor in each repeat, and a digest of all results.

    Workers agree on a maximum before each repeat, so that they begin together.
    """
    back_values, front_values = spec["sizes"]
    generator = torch.Generator().manual_seed(rank)
    digest, seconds = hashlib.sha256(), []
    with Lanes(sumwire.load_job(spec["job_file"], worker=rank), fallback="never") as lanes:
        for position in (BACK, FRONT):
            lanes.reduce(torch.ones(_WARM_UP_VALUES), 0, position)
        settle()
        for _ in range(spec["repeats"]):
            back = torch.randn(back_values, generator=generator)
            front = torch.randn(front_values, generator=generator)
            lanes.jobs[0].max32(np.array([rank], np.uint32))
            took, content = both(lanes, back, front, spec["gap_s"])
            seconds.append(took)
            digest.update(content)
    return {"front_s": seconds, "digest": digest.hexdigest()}


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, rank = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    torch.set_num_threads(1)
    Path(spec["results"][rank]).write_text(json.dumps(measure(spec, rank)))


if __name__ == "__main__":
    main(sys.argv[1:])
