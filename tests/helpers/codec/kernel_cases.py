# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a process says of the kernels when it encodes."""

from __future__ import annotations

import logging

import torch
from sumwire.codec.kernels import kernels
from sumwire.codec.tables import uniform
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
