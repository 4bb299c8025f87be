# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How many bytes a system puts on the busier direction of a worker's link for one gradient: the bound of the wire.

Packet headers are in it; acknowledgements, norms, magnitudes and what is sent again are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sumwire.codec.base import CodecInfo
from sumwire.codec.sign import SignCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.thc import ThcCodec
from sumwire.wire.header import HEADER_BYTES, LOWER_HEADER_BYTES, WORD_BYTES

from sumwire_lab.bench.commands.allreduce import TCP_FRAME, TCP_PAYLOAD
from sumwire_lab.options.recipes import parse

_FLOAT_BYTES: Final = 4
_HALF_BYTES: Final = 2
_SIGN_BYTES: Final = 1 / 8
# A value and its position.
_PAIR_BYTES: Final = 8


@dataclass(frozen=True)
class Gradient:
    """One matrix, and how low-rank and sparse systems send it."""

    rows: int
    columns: int
    rank: int
    share: float

    @property
    def values(self) -> int:
        return self.rows * self.columns

    @property
    def factor_values(self) -> float:
        """Of one factor, the mean of P and Q."""
        return self.rank * (self.rows + self.columns) / 2


def sides(values: int) -> tuple[int, int]:
    """The matrix with so many values that is nearest to a square."""
    rows = next(rows for rows in range(math.isqrt(values), 0, -1) if values % rows == 0)
    return rows, values // rows


def _ring(payload: float, workers: int) -> float:
    """Each way, in full TCP segments."""
    return 2 * (workers - 1) / workers * payload * TCP_FRAME / TCP_PAYLOAD


def _gathered(payload: float, workers: int) -> float:
    """Everybody's payload to everybody, each way."""
    return (workers - 1) * payload * TCP_FRAME / TCP_PAYLOAD


def _packets(info: CodecInfo, values: float) -> float:
    """Up or down, whichever is more."""
    packet = LOWER_HEADER_BYTES + HEADER_BYTES + max(info.words_up, info.words_down) * WORD_BYTES
    return math.ceil(values / info.chunk_values) * packet


Bytes = Callable[[Gradient, int], float]

# By the recipe's system and transport.
_BYTES: Final[Mapping[tuple[str, str], Bytes]] = {
    ("ssgd", "group"): lambda g, n: _ring(_FLOAT_BYTES * g.values, n),
    ("fp16", "group"): lambda g, n: _ring(_HALF_BYTES * g.values, n),
    ("powersgd", "group"): lambda g, n: _ring(2 * _FLOAT_BYTES * g.factor_values, n),
    ("topk", "group"): lambda g, n: _gathered(_PAIR_BYTES * g.share * g.values, n),
    ("acp", "group"): lambda g, n: _ring(_FLOAT_BYTES * g.factor_values, n),
    ("acp", "switch"): lambda g, n: _packets(Sum32Codec.info, g.factor_values),
    ("acp-thc", "group"): lambda g, n: _ring(g.factor_values, n),
    ("acp-thc", "switch"): lambda g, n: _packets(ThcCodec.info, g.factor_values),
    ("thc", "group"): lambda g, n: _ring(g.values, n),
    ("thc", "switch"): lambda g, n: _packets(ThcCodec.info, g.values),
    ("thc-uniform", "group"): lambda g, n: _ring(g.values, n),
    ("thc-uniform", "switch"): lambda g, n: _packets(ThcCodec.info, g.values),
    ("sum32", "switch"): lambda g, n: _packets(Sum32Codec.info, g.values),
    ("marsit", "switch"): lambda g, n: _packets(SignCodec.info, g.values),
    ("ssdm", "switch"): lambda g, n: _packets(SignCodec.info, g.values),
    ("ef-sign", "switch"): lambda g, n: _packets(SignCodec.info, g.values),
    ("ef-sign", "group"): lambda g, n: _gathered(_SIGN_BYTES * g.values, n),
    ("vote", "switch"): lambda g, n: _packets(VoteCodec.info, g.values),
    ("vote", "group"): lambda g, n: _gathered(_SIGN_BYTES * g.values, n),
    ("cascade", "group"): lambda g, n: _ring(_SIGN_BYTES * g.values, n),
    ("marsit-ring", "group"): lambda g, n: _ring(_SIGN_BYTES * g.values, n),
}


def wire_bytes(system: str, gradient: Gradient, workers: int) -> float:
    """Of a system by its name in the lab. A Marsit round is one of signs."""
    chosen = parse(system)
    return _BYTES[chosen.recipe.system, chosen.transport](gradient, workers)
