# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the C files beside a module. Without a compiler, or with SUMWIRE_NATIVE=0, numpy and torch do the same work,
only slower."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import nativelib
from commonlib.events import ProgramEvent
from nativelib.declarations import Native, declare

# The environment variable that, set to 0, switches C off: for codecs, aggregator and transport.
SWITCH: Final = "SUMWIRE_NATIVE"


def switched_off() -> bool:
    """Return whether the user wants no compiled code."""
    return os.environ.get(SWITCH) == "0"


def constants_header(constants: Mapping[str, int | str]) -> str:
    """Return the text of a constants.h."""
    lines = [f"#define {constant} {value}" for constant, value in constants.items()]
    return "\n".join(("#pragma once", *lines, ""))


class NativeFolder:
    """The C files of a folder, compiled and loaded when they are first used.

    ``constants``: those for constants.h; a text is inserted as C. ``without``: what the lack of a compiler means, for
    the log. ``off``: the same if the user switched C off, logged once if given. ``includes``: other folders with
    headers.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        constants: Mapping[str, int | str],
        *,
        without: str,
        off: str = "",
        flags: Sequence[str] = ("-O3",),
        includes: Sequence[Path] = (),
        logger: str = "sumwire",
    ) -> None:
        self.name = name
        self.folder = folder
        self.constants = constants
        self._without, self._off = without, off
        self._flags, self._includes = flags, includes
        self._log = logging.getLogger(logger)

    def kernels(self) -> Native | None:
        """Return the compiled functions and their structures, or None if Python has to do their work."""
        if switched_off():
            self._say_switched_off()
            return None
        return self._loaded

    @functools.cached_property
    def _loaded(self) -> Native | None:
        try:
            return self.load(self.name, self._flags)
        except nativelib.NativeError as error:
            reason = ProgramEvent.KERNELS_MISSING(reason=str(error))
            self._log.warning("%s: %s", self._without, error, extra=reason)
            return None

    def load(self, name: str, flags: Sequence[str], generated: Mapping[str, str] | None = None) -> Native:
        """Compile and load them, with further ``generated`` files by their names. Raises NativeError."""
        texts = {"constants.h": constants_header(self.constants), **(generated or {})}
        sources = sorted(self.folder.glob("*.c"))
        includes = [self.folder, *self._includes]
        built = nativelib.build(name, sources, generated=texts, includes=includes, flags=flags)
        return declare(nativelib.load(built), [*sorted(self.folder.glob("*.h")), *sources], self.constants)

    def _say_switched_off(self) -> None:
        if self._off:
            why, said, self._off = f"{SWITCH}=0", self._off, ""
            self._log.info("%s: %s", why, said, extra=ProgramEvent.KERNELS_MISSING(reason=why))
