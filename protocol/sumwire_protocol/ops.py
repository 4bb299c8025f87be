# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The ops, which define what a switch does with the contributions to a slot; one `Op` each.

Controller, host library, software aggregator and lab take codes, words and limits from this table, and the table of
docs/wire-format.md is written from it. Codes and sizes themselves are constants of the P4 program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sumwire_protocol import constants as p4

COUNT_MAX: Final = (1 << dict(p4.SUMWIRE_FIELDS)["count"]) - 1
"""The most contributors that a packet's field `count` can tell."""
ONE_TRIP_CHUNKS: Final = 32
"""Chunks of a tensor up to which its norms or exponents may travel with it.

All workers have the same limit, because all count chunks alike. A longer tensor keeps the link busy for longer than a
round trip, and what is sent in vain would cost more.
"""


_Ufunc: TypeAlias = Literal["maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"]


@dataclass(frozen=True, slots=True)
class Payload:
    """The payload of packets in one direction.

    ``words``: how many, of 128 bytes each. ``holds``: its description; "" for a partial result with the form of a
    contribution.
    """

    words: int
    holds: str = ""


@dataclass(frozen=True, slots=True)
class Op:
    """One op.

    ``up`` is a host's contribution, ``partial`` a lower switch's partial result, ``down`` a result. ``value_bits`` is
    the size of one value in a host's contribution. A result has room for the contributions of ``workers_max`` hosts,
    a partial result for those of ``workers_below_max``. ``limit``, for the docs, is a lower limit that depends on the
    job's options. ``signed``: its elements are int32, not uint32. ``ufunc``: the numpy ufunc that an element-wise op
    applies to its elements, uint32.
    """

    name: str
    code: int
    up: Payload
    partial: Payload
    down: Payload
    value_bits: int
    workers_max: int = COUNT_MAX
    workers_below_max: int = COUNT_MAX
    limit: str = ""
    signed: bool = False
    ufunc: _Ufunc | None = None

    @property
    def title(self) -> str:
        """Name of the op in prose."""
        return self.name.upper()

    @property
    def values(self) -> int:
        """Number of values in a host's contribution."""
        return self.up.words * p4.WORD_BITS // self.value_bits

    @property
    def element_bytes(self) -> int:
        """Size of an element in bytes; 0 if the values are in planes."""
        return self.value_bits // 8


THC: Final = Op(
    "thc",
    p4.OP_THC,
    up=Payload(p4.THC_WORDS_UP, "planes of indices, 0 to 15"),
    partial=Payload(p4.THC_WORDS_PARTIAL, "planes of sums of table values, 0 to 255"),
    down=Payload(p4.THC_WORDS_DOWN, "planes of sums of table values, 0 to 255"),
    value_bits=p4.THC_INDEX_PLANES,
    limit="255 / granularity",
)


def _elementwise(name: str, code: int, ufunc: _Ufunc, elements: str = "elements of uint32") -> Op:
    words = p4.ELEMENTWISE_WORDS
    each = f"the {ufunc.replace('_', ' ')} of each element"
    return Op(
        name, code, up=Payload(words, elements), partial=Payload(words), down=Payload(words, each),
        value_bits=p4.ELEMENT_BITS, ufunc=ufunc,
    )  # fmt: skip


MAX32: Final = _elementwise("max32", p4.OP_MAX32, "maximum", "elements of uint32, element j in bytes 4j to 4j+3")
MIN32: Final = _elementwise("min32", p4.OP_MIN32, "minimum")
SUM32: Final = Op(
    "sum32",
    p4.OP_SUM32,
    up=Payload(p4.SUM32_WORDS, "elements of int32"),
    partial=Payload(p4.SUM32_WORDS),
    down=Payload(p4.SUM32_WORDS, "the sum of each element, wrapped"),
    value_bits=p4.ELEMENT_BITS,
    signed=True,
)
SIGN: Final = Op(
    "sign",
    p4.OP_SIGN,
    up=Payload(p4.SIGN_WORDS, "signs, 1 is plus"),
    partial=Payload(p4.SIGN_WORDS, "merged signs"),
    down=Payload(p4.SIGN_WORDS, "merged signs"),
    value_bits=1,
    workers_max=p4.SIGN_WORKERS_MAX,
    workers_below_max=p4.SIGN_WORKERS_MAX,
)
VOTE: Final = Op(
    "vote",
    p4.OP_VOTE,
    up=Payload(p4.VOTE_WORDS_UP, "signs"),
    partial=Payload(p4.VOTE_WORDS_PARTIAL, "two counters of 3 planes, of 1024 values each"),
    down=Payload(p4.VOTE_WORDS_DOWN, "the majority; a tie is plus"),
    value_bits=1,
    workers_max=p4.VOTE_WORKERS_MAX,
    workers_below_max=p4.VOTE_WORKERS_BELOW_MAX,
)
JUMBO: Final = Op(
    "jumbo",
    p4.OP_JUMBO,
    up=Payload(p4.JUMBO_WORDS, "table values, a byte each"),
    partial=Payload(p4.JUMBO_WORDS),
    down=Payload(p4.JUMBO_WORDS, "sums of table values, 0 to 255"),
    value_bits=8,
    limit="255 / granularity",
)
OPS: Final = (THC, MAX32, SUM32, SIGN, VOTE, MIN32, JUMBO)
ELEMENTWISE: Final[Mapping[str, Op]] = {op.name: op for op in OPS if op.ufunc}
SHORT_OPS: Final = tuple(op for op in OPS if op.down.words <= p4.SLOT_WORDS)
"""Those that a software aggregator sums: their packets fit a slot of 8 words."""

BY_NAME: Final[Mapping[str, Op]] = {op.name: op for op in OPS}
BY_CODE: Final[Mapping[int, Op]] = {op.code: op for op in OPS}
CODES: Final[Mapping[str, int]] = {op.name: op.code for op in OPS}


def as_markdown() -> str:
    """Return the table of docs/wire-format.md."""
    titles = ("op", "code", "a packet holds", "words up from a host", "up from a lower switch", "down", "hosts at most")
    rows = [titles, ("---",) * len(titles), *(_row(op) for op in OPS)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(op: Op) -> tuple[str, ...]:
    most = op.limit or str(op.workers_max)
    if op.workers_below_max < op.workers_max:
        most += f", and {op.workers_below_max} below a lower switch"
    return (op.title, str(op.code), f"{op.values} values", *map(_cell, (op.up, op.partial, op.down)), most)


def _cell(payload: Payload) -> str:
    return f"{payload.words}: {payload.holds}" if payload.holds else str(payload.words)
