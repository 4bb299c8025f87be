# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A case: one experiment with one switch and one seed, carried out in namespaces of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

SPEC: Final = "case.json"
RECORD: Final = "record.json"


@dataclass(frozen=True)
class Case:
    """One experiment. `variant`: which of the row's; `limit_s`: after so many seconds it is killed."""

    row: str
    switch: str
    seed: int
    limit_s: float
    variant: str = ""

    @property
    def name(self) -> str:
        """Also the name of its folder."""
        return "-".join(word for word in (self.row, self.switch, self.variant, str(self.seed)) if word)

    def save(self, folder: Path) -> None:
        (folder / SPEC).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> Case:
        return cls(**json.loads((folder / SPEC).read_text()))


@dataclass(frozen=True)
class Outcome:
    """What came of a case: its record, or the error that ended it. `killed`: after its limit; `again`: it is that of a
    second try, since the first one was killed."""

    case: Case
    seconds: float
    record: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    killed: bool = False
    again: bool = False
