# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whether compiled C does the work of a host. Without it numpy and torch do the same, at a higher price."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from ctypes import CDLL
from pathlib import Path
from typing import Final

import nativelib
from sumwire_protocol.logs.events import Event

# The environment variable that, set to 0, switches C off: for codecs, aggregator and transport.
SWITCH: Final = "SUMWIRE_NATIVE"
_LOG: Final = logging.getLogger("sumwire")


def switched_off() -> bool:
    """Whether the user wants no compiled code."""
    return os.environ.get(SWITCH) == "0"


def constants_header(constants: Mapping[str, int]) -> str:
    """The text of a constants.h."""
    lines = [f"#define {constant} {value}" for constant, value in constants.items()]
    return "\n".join(("#pragma once", *lines, ""))


def load_folder(name: str, folder: Path, constants: Mapping[str, int], without: str) -> CDLL | None:
    """Compile the C files of a folder, with ``constants`` in their constants.h, and load them.

    Without a compiler it returns None, and logs ``without``, what that means.
    """
    generated = {"constants.h": constants_header(constants)}
    try:
        built = nativelib.build(name, sorted(folder.glob("*.c")), generated=generated, includes=[folder], flags=["-O3"])
        return nativelib.load(built)
    except nativelib.NativeError as error:
        _LOG.warning("%s: %s", without, error, extra=Event.KERNELS_MISSING(reason=str(error)))
        return None
