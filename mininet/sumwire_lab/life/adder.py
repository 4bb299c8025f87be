# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker that adds known values, and compares every sum with what they make: `python -m sumwire_lab.life.adder
SPEC.json RANK`.

Sums are computed here from the values that all workers send, and from the job's table, without the library's codecs.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import sumwire
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire_protocol.ops import THC
from torch import Tensor

from sumwire_lab.experiments import ops_expect
from sumwire_lab.system.processes import end_with_parent, leave

CHUNKS: Final = 24
"""Chunks of every THC operation; other operations have as many values as fill a few chunks."""
_VALUES: Final = 3000
_ELEMENT_MAX: Final = 1 << 24
_GROUP_TIMEOUT: Final = timedelta(seconds=120)


@dataclass(frozen=True)
class AdderSpec:
    """`rounds`: how often every operation is done; None: until the program is killed. `master`: where ranks of a
    process group meet; empty for a job without one."""

    job_file: str
    workers: int
    folder: str
    seed: int
    rounds: int | None
    master: str = ""
    interfaces: tuple[str, ...] = ()

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> AdderSpec:
        return cls(**json.loads(path.read_text()))


class RawThc(GradientCodec):
    """Sends given words with the op THC, and keeps the words that come back."""

    info: ClassVar[CodecInfo] = CodecInfo.of("raw-thc", THC)

    def __init__(self, words: NDArray[np.uint8]) -> None:
        super().__init__()
        self.words = words
        self.sums = np.zeros((len(words), THC.down.words, words.shape[2]), np.uint8)
        self.counts = np.zeros(len(words), np.int64)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        return _RawRound(self, x, self.chunks(len(x)), 1)


class _RawRound(CodecRound):
    def __init__(self, codec: RawThc, x: Tensor, chunks: int, grain: int) -> None:
        super().__init__(codec, x, chunks, grain)
        self._raw = codec

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        out[:] = self._raw.words[first:last]

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        self._raw.sums[first:last], self._raw.counts[first:last] = words, counts
        target[:] = 0

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        return torch.zeros(self.length)


def elements(worker: int, number: int, seed: int) -> NDArray[np.int32]:
    """A worker's values in one round of operations."""
    return np.random.default_rng((seed, worker, number)).integers(-_ELEMENT_MAX, _ELEMENT_MAX, _VALUES, np.int32)


def wrong(job: sumwire.Job, worker: int, number: int, seed: int) -> list[str]:
    """Names of the operations of one round whose result is not what the workers' values make."""
    workers, config = range(job.workers), job.config
    words = [ops_expect.contribution("thc", k, CHUNKS, seed + number) for k in workers]
    raw = RawThc(words[worker])
    job.reduce_with(raw, torch.zeros(CHUNKS * THC.values))
    values = np.stack([elements(k, number, seed) for k in workers])
    own = values[worker]
    assert config.thc is not None
    right = {
        "thc": bool((raw.sums == ops_expect.expected("thc", words, config.thc.table)).all()),
        "thc counts": bool((raw.counts == job.workers).all()),
        "sum32": bool((job.sum32(own) == values.sum(axis=0)).all()),
        "max32": bool((job.max32(own.view(np.uint32)) == values.view(np.uint32).max(axis=0)).all()),
        "vote": bool(
            (job.vote(torch.from_numpy(own > 0)).numpy() == (2 * (values > 0).sum(axis=0) >= len(values))).all()
        ),
    }
    return [name for name, is_right in right.items() if not is_right]


def add(spec: AdderSpec, worker: int) -> dict[str, Any]:
    """Do all rounds. Returns the wrong operations by round, and the job's counts."""
    found: dict[int, list[str]] = {}
    number = 0
    with (
        sumwire.Job(sumwire.load_job(spec.job_file, worker=worker), fallback="never") as job,
        Path(spec.folder, f"count{worker}").open("wb", buffering=0) as count,
    ):
        while spec.rounds is None or number < spec.rounds:
            if bad := wrong(job, worker, number, spec.seed):
                found[number] = bad
            number += 1
            # One byte per round, so that the experiment can see how far this worker is.
            count.write(b".")
        return {"rounds": number, "wrong": found, "stats": job.stats.as_dict()}


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, worker = AdderSpec.load(Path(arguments[0])), int(arguments[1])
    torch.set_num_threads(1)
    if spec.master:
        os.environ["GLOO_SOCKET_IFNAME"] = spec.interfaces[worker]
        where = f"tcp://{spec.master}"
        dist.init_process_group("gloo", init_method=where, rank=worker, world_size=spec.workers, timeout=_GROUP_TIMEOUT)
    record = add(spec, worker)
    Path(spec.folder, f"sums{worker}.json").write_text(json.dumps(record))
    leave()


if __name__ == "__main__":
    main(sys.argv[1:])
