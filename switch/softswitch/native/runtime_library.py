# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the run-time library: machines, tables, single packets. It does not depend on a program, so it is built once.
Its functions and structures come from the C sources; pointers to C's own structures are plain addresses, arrays of
limbs are bytes."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Collection, Sequence
from ctypes import c_uint32, c_void_p
from pathlib import Path

from nativelib import build, load
from nativelib.declarations import Native, declare

FOLDER = Path(__file__).parent  # the C sources

# void log(machine, number of the message, its values)
LogFunction = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p)


@functools.cache
def headers() -> dict[str, str]:
    """Return the texts of the headers that emitted programs include, by name.

    They are read once, because a switch that has given up root's rights may not be able to read the folder again.
    """
    return {path.name: path.read_text() for path in FOLDER.glob("*.h")}


@functools.cache
def runtime() -> Native:
    """Return the run-time library; the first call builds and loads it. Raises nativelib.NativeError."""
    structs = ("ss_frame", "ss_field", "ss_replica")
    return native_library("softswitch-runtime", ("runtime.c", "tables.c"), structs)


def native_library(name: str, sources: Sequence[str], structs: Collection[str], flags: Sequence[str] = ()) -> Native:
    """Build and load a library of C sources in this folder. ``structs``: the structures that Python makes or reads.
    Raises nativelib.NativeError."""
    return declared(build(name, [FOLDER / source for source in sources], includes=[FOLDER], flags=flags), structs)


def declared(path: Path, structs: Collection[str]) -> Native:
    """Load the library that was built from the sources in this folder."""
    return declare(load(path), sorted(FOLDER.glob("*.[hc]")), {}, structs)


def present(address: int | None) -> int:
    """Return the address that a C function returned. Raises MemoryError for NULL."""
    if not address:
        raise MemoryError("the native engine ran out of memory")
    return address
