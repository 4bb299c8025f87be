# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random numbers: both engines draw the same sequence from the same seed."""

from __future__ import annotations

import ctypes
import os

LIMB_BITS = 64
_MASK = (1 << LIMB_BITS) - 1


class SplitMix:
    """SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). ``seed`` None takes one from the system.

    The state lies at ``address``, so that the native engine draws from the same sequence.
    """

    def __init__(self, seed: int | None = None) -> None:
        chosen = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        self._state = ctypes.c_uint64(chosen & _MASK)
        self.address = ctypes.addressof(self._state)

    def next(self) -> int:
        """64 random bits."""
        state = (self._state.value + 0x9E3779B97F4A7C15) & _MASK
        self._state.value = state
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return state ^ (state >> 31)

    def integer(self, low: int, high: int, limbs: int) -> int:
        """A number in low..high from ``limbs`` draws of 64 bits, the least significant first."""
        drawn = 0
        for limb in range(limbs):
            drawn |= self.next() << (LIMB_BITS * limb)
        return low + ((drawn * (high - low + 1)) >> (LIMB_BITS * limbs))
