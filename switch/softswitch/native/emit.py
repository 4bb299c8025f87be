# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Placeholder by H1 until H2's emitter lands: write over it."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch import ir
from softswitch.device import UnsupportedProgramError


@dataclass(frozen=True)
class Message:
    format: str
    widths: tuple[int, ...]


@dataclass(frozen=True)
class CProgram:
    source: str
    messages: tuple[Message, ...]


def emit_c(program: ir.Program) -> CProgram:
    raise UnsupportedProgramError(f"{program.parser.name}: nothing is emitted yet")
