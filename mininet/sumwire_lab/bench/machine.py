# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Describes the machine on which the benchmark runs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch

_PROCESSORS: Final = Path("/proc/cpuinfo")
_MEMORY: Final = Path("/proc/meminfo")


def describe() -> dict[str, str]:
    """Hardware, other load and software versions, by name."""
    here = {
        "processor": f"{processor_name(_PROCESSORS.read_text())}, {os.cpu_count()} in the system",
        "memory": memory(_MEMORY.read_text()),
        "other work when the benchmark began": f"load average {os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.release()}",
        "Python, PyTorch": f"{platform.python_version()}, {torch.__version__}",
    }
    if torch.cuda.is_available():
        here["GPU"] = torch.cuda.get_device_name()
    return here


def processor_name(text: str) -> str:
    """Processor name from /proc/cpuinfo, or the architecture if it has none (not x86)."""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def memory(text: str) -> str:
    """Size of the memory, from /proc/meminfo."""
    sizes: Mapping[str, str] = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    kibibytes = int(sizes["MemTotal"].split()[0])
    return f"{kibibytes / (1 << 20):.1f} GiB"
