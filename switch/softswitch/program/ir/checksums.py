# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Calculations (checksums and hashes), and the checksums that the architecture verifies and updates."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.program.ir.expressions import Const, Expr, FieldRef
from softswitch.program.ir.source import UNKNOWN_SOURCE, Source


@dataclass(frozen=True)
class Chunk:
    """``width`` bits of a calculation's input. Chunks of an invalid header are skipped.

    Of a varbit field: the bits that ``length`` counts, at most ``width``, if header ``owner`` is valid.
    """

    value: FieldRef | Const
    width: int
    length: FieldRef | None = None
    owner: str | None = None


@dataclass(frozen=True)
class Calculation:
    """``algorithm`` (csum16, xor16, crc16, crc32 or identity) over the joined chunks, padded on the right to a byte.

    ``payload``: what was not parsed follows them.
    """

    name: str
    algorithm: str
    chunks: tuple[Chunk, ...]
    source: Source = UNKNOWN_SOURCE
    payload: bool = False


@dataclass(frozen=True)
class Checksum:
    """A checksum in field ``target``, where ``condition`` holds.

    ``verify``: compared between parser and ingress. ``update``: written between egress and deparser.
    """

    name: str
    target: FieldRef
    calculation: str
    condition: Expr
    verify: bool
    update: bool
