# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""TOS bytes of a tensor's packets between neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

Tagger = Callable[[NDArray[np.float32]], NDArray[np.uint8]]
"""Magnitudes of a tensor's packets, float32 (packets,) -> their TOS bytes, uint8 of that shape."""
UNTAGGED: Final = 0
# The priority's bits: docs/dlcp.md.
_PRIORITY: Final = 0xE0


def tagged(tag: Tagger, values: NDArray[np.float32]) -> tuple[NDArray[np.uint8], int]:
    """The TOS byte of each packet with these values, shape (packets, VALUES); and that of what must not be lost, of the
    same priority. A packet's magnitude is the L2 norm of its values."""
    norms = np.sqrt(np.square(values, dtype=np.float64).sum(1)).astype(np.float32)
    tos = tag(norms)
    return tos, int(tos[0]) & _PRIORITY | p4.ECN_ECT
