# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Large blocks of memory."""

from __future__ import annotations

import contextlib
import mmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

_HUGE_PAGE: Final = 1 << 21


def new_block(size: int) -> NDArray[np.uint8]:
    """Return memory of at least ``size`` bytes, on huge pages where they help. Its pages may not be allocated yet."""
    if size < _HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(size, np.uint8)
    whole = -(-size // _HUGE_PAGE) * _HUGE_PAGE
    mapped = mmap.mmap(-1, whole + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages = np.frombuffer(mapped, np.uint8)
    # Huge pages begin at multiples of their size.
    first = -pages.ctypes.data % _HUGE_PAGE
    # A system without them refuses, and the block has common pages.
    with contextlib.suppress(OSError):
        mapped.madvise(mmap.MADV_HUGEPAGE, first, whole)
    return pages[first : first + whole]
