# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tags by C, compiled at first use. Without a compiler, or with SUMWIRE_NATIVE=0, numpy computes them."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_uint64, c_void_p
from pathlib import Path
from typing import Final

from sumwire_protocol import constants as p4

from sumwire.native import load_folder, switched_off

FOLDER: Final = Path(__file__).parent / "native"
"""Where tags.h is. Who includes it has constants of these names first."""
_NAMES: Final = (
    "SUMWIRE_BYTES",
    "TAG_BYTES",
    "WORD_BYTES",
    "SLOT_WORDS",
    "KIND_CONTRIBUTE",
    "KIND_PROBE",
    "KIND_REFUSED",
)


class TagsMessages(ctypes.Structure):
    """struct tags_messages."""

    _fields_ = [
        ("memory", c_void_p),
        ("message_bytes", c_uint64),
        ("lengths", c_void_p),
        ("length_bytes", c_uint64),
        ("segments", c_void_p),
        ("segment_bytes", c_uint64),
    ]


def kernels() -> ctypes.CDLL | None:
    """The compiled code, or None if numpy has to do its work."""
    return None if switched_off() else _library()


@functools.cache
def _library() -> ctypes.CDLL | None:
    constants = {name: getattr(p4, name) for name in _NAMES}
    found = load_folder("sumwire-tags", FOLDER, constants, "numpy computes authentication tags, far slower than C")
    if found is None:
        return None
    found.tags_write.argtypes = (c_void_p, c_void_p, c_uint64, c_void_p, c_uint64)
    found.tags_write.restype = None
    found.tags_check.argtypes = (c_void_p, POINTER(TagsMessages), c_uint64)
    found.tags_check.restype = c_uint64
    return found
