# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Files of whole records, which end where they cannot be written, while the switch goes on."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

from softswitch.events import SwitchEvent

_log = logging.getLogger("softswitch")


class RecordFile:
    """A file that is written anew; without ``path``, standard error. Raises OSError if it cannot be opened.

    Each record is written at once, so that the file is whole at any moment. Where one cannot be written, the file keeps
    those before it, that is logged, and later records are lost.
    """

    def __init__(self, path: Path | None) -> None:
        self._name = "standard error" if path is None else str(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file: int | None = os.dup(2) if path is None else os.open(path, flags, 0o666)
        self._whole = 0

    def write(self, record: bytes) -> None:
        if self._file is None:
            return
        left = memoryview(record)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            with suppress(OSError):  # a pipe has no length
                os.ftruncate(self._file, self._whole)
            self.close()
            reason = error.strerror or str(error)
            told = SwitchEvent.FILE_ENDED(file=self._name, reason=reason)
            _log.error("%s: %s: nothing more is written there", self._name, reason, extra=told)
        else:
            self._whole += len(record)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
