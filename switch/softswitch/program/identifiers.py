# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Names of generated variables."""

from __future__ import annotations

import re


def identifier(name: str, taken: set[str]) -> str:
    """Return an identifier of Python and C that resembles ``name`` and is not in ``taken``; add it there."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    candidate, number = base, 2
    while candidate in taken:
        candidate, number = f"{base}_{number}", number + 1
    taken.add(candidate)
    return candidate
