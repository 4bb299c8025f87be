# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a process says of the kernels when it encodes."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

import numpy as np
import torch
from sumwire.codec.base import GradientCodec
from sumwire.codec.kernels import THREADS, kernels
from sumwire.codec.naive import NaiveCodec
from sumwire.codec.sign import EfSignCodec, SsdmCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import solve, uniform
from sumwire.codec.thc import ThcCodec


def encode_twice() -> tuple[str, list[str]]:
    """(the form that encoded, what was logged of it)"""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    codec = ThcCodec(uniform(4, 1 / 32), job=1, worker=0)
    for sequence in range(2):
        round_ = codec.begin(torch.ones(5000), sequence, 0)
        round_.encode(round_.preliminary())
    return "native" if kernels(torch.zeros(1)) else "torch", [line for line in said if "torch" in line]


def codecs() -> list[GradientCodec]:
    table = solve(4, 30, 1 / 32)
    blocks: tuple[int | None, ...] = (1024, 2048, 4096, 8192, None)
    thc = [ThcCodec(table, job=1, worker=2, block=block) for block in blocks]
    fine = ThcCodec(solve(4, 60, 1 / 32), job=1, worker=2)
    others = [EfSignCodec(workers=2), SsdmCodec(job=3, worker=1), Sum32Codec(workers=3), NaiveCodec(uniform(4, 1 / 32))]
    return [*thc, fine, *others]


def digest() -> tuple[str, str]:
    """(the form in use, a digest of all that the codecs make of some tensor)"""
    x = torch.randn(21_001, generator=torch.Generator().manual_seed(3))
    made = hashlib.sha256(b"".join(_made(one, x) for one in codecs()))
    return "native" if kernels(x) else "torch", made.hexdigest()


def _made(codec: GradientCodec, x: torch.Tensor) -> bytes:
    round_ = codec.begin(x, 6, 2)
    agreed = round_.preliminary()
    words = round_.encode(agreed)
    down = np.zeros((round_.chunks, codec.info.words_down, 128), np.uint8)
    down[:, -words.shape[1] :] = words
    result = round_.decode(down, np.full(round_.chunks, 2))
    made = agreed, words, result.numpy(), round_.residual().numpy()
    return b"".join(array.tobytes() for array in made)


def digest_of_a_forked_child() -> tuple[str, str]:
    """The digest of a child that was forked while its parent had threads for the kernels."""
    os.environ[THREADS] = "3"
    here = digest()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, digest()[1].encode())
        os._exit(0)
    there = os.read(reading, 1000).decode()
    os.waitpid(child, 0)
    return here[1], there


def threads_started(chosen: str) -> int:
    """How many threads an encoding starts beyond those that torch has."""
    torch.set_num_threads(1)
    codec = ThcCodec(uniform(4, 1 / 32), job=1, worker=0)
    counted = []
    for threads in ("1", chosen):
        os.environ[THREADS] = threads
        round_ = codec.begin(torch.ones(50_000), 0, 0)
        round_.encode(round_.preliminary())
        counted.append(len(list(Path("/proc/self/task").iterdir())))
    return counted[1] - counted[0]
