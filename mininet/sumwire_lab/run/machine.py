# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where and with what a run was measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sumwire_protocol.version import __version__

_PROCESSORS: Final = Path("/proc/cpuinfo")


def told() -> dict[str, str | int]:
    """For `summary.json`: the day, the machine, and the versions that decide how fast a run is."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": _version("torch"),
        "sumwire": __version__,
    }


def _processor() -> str:
    """The processor's name as the kernel has it, or its kind."""
    lines = _PROCESSORS.read_text(errors="replace").splitlines() if _PROCESSORS.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"
