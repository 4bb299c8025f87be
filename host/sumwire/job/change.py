# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a job tells about a change between the network and the process group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Change:
    """``kind``: "fallback" to the process group, or "return" to the network. ``operation``: the first one made in the
    new way, the same on all workers. ``reason``: a text for people."""

    kind: Literal["fallback", "return"]
    operation: int
    reason: str
