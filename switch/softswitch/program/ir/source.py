# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where a construct stands in the P4 program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A file and a line; line 0 if the compiler did not record it. ``json``: the place in bmv2's JSON, then."""

    file: str = ""
    line: int = 0
    json: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else (self.json or self.file or "no source line known")


UNKNOWN_SOURCE = Source()
