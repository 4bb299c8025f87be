# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The C kernel of the aggregator, compiled at first use. Without it, or with SUMWIRE_NATIVE=0, numpy does its work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SHORT_OPS

from sumwire.aggregator import batches, folds
from sumwire.native import NativeFolder
from sumwire.wire.messages import NATIVE as WIRE
from sumwire.wire.packets import HEADER_BYTES, headers
from sumwire.wire.trains import TRAIN_BYTES

# The most replies of a train where the packets came one by one.
TO_SINGLES: Final = 16


def _constants() -> dict[str, int | str]:
    """The constants of the P4 program, the offsets of the header's fields, and those of the modules here."""
    fields: Mapping[str, Any] = headers(np.zeros((1, HEADER_BYTES), np.uint8)).dtype.fields or {}
    # A struct op_words for every op, by its code.
    words = (f"[{op.code}] = {{{op.up.words}, {op.partial.words}, {op.down.words}}}" for op in SHORT_OPS)
    return {
        **{name: value for name, value in vars(p4).items() if isinstance(value, int)},
        **{f"AT_{name.upper()}": offset for name, (_, offset, *_) in fields.items()},
        **{name: f"{getattr(folds, name):#x}u" for name in ("GOLDEN", "MIX_1", "MIX_2")},
        "PROBABILITY_BITS": folds.PROBABILITY_BITS,
        "TRAIN_BYTES": f"{TRAIN_BYTES}u",
        "TO_SINGLES": f"{TO_SINGLES}u",
        **{f"TOS_{name}": getattr(batches, name) for name in ("PRIORITY_BITS", "ECN_BITS", "PLAIN_REPLY")},
        "OP_TABLE": f"{{{', '.join(words)}}}",
    }


NATIVE: Final = NativeFolder(
    "sumwire-aggregator",
    Path(__file__).parent / "native",
    _constants(),
    without="numpy aggregates, several times slower than the native kernel",
    off="numpy aggregates, several times slower than the native kernel",
    includes=[WIRE.folder],
    logger="sumwire.aggregator",
)
kernels: Final = NATIVE.kernels
