# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire-lab models`: all searches, their table, and a record of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from sumwire_lab.models import suite


def search(names: Sequence[str], record: Path | None, say: Callable[[str], None]) -> list[suite.Outcome]:
    """Search the named models, or all, and write the record (JSON). Raises LabError, OptionError, KeyboardInterrupt."""
    done = suite.carry_out(suite.tasks(names), say)
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        rows = [outcome.as_dict() for outcome in done]
        held = all(outcome.holds for outcome in done)
        record.write_text(json.dumps({"holds": held, "searches": rows}, indent=1) + "\n")
    return done
