# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The workers' traces as one: all have the machine's monotonic clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

NAME: Final = "trace.json"


def join_traces(folder: Path) -> None:
    """Write trace.json from the trace-N.json of all workers, which are removed. Without any there is none."""
    files = sorted(folder.glob("trace-*.json"))
    traces: list[dict[str, Any]] = [json.loads(file.read_text()) for file in files]
    if not traces:
        return
    events = [event for trace in traces for event in trace["traceEvents"]]
    (folder / NAME).write_text(json.dumps({**traces[0], "traceEvents": events}) + "\n")
    for file in files:
        file.unlink()
