# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What nobody catches, as events: Python's warnings, and exceptions that end a thread or the program."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType
from typing import Final

from sumwire_protocol.logs.events import Event

_WARNINGS: Final = "py.warnings"
"""The logger to which `logging.captureWarnings` gives warnings."""
_NAME: Final = "sumwire_uncaught"
_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)


def to(handler: logging.Handler) -> None:
    """Give the handler what Python would print as lines of its own. It is for programs, not for a library."""
    for name in (_WARNINGS, _NAME):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
    logging.captureWarnings(True)
    sys.excepthook = _ended
    threading.excepthook = _thread_ended


def _ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, _INTERRUPTS):
        sys.__excepthook__(kind, error, trace)
        return
    text = f"{kind.__name__}: {error}"
    logging.getLogger(_NAME).error("%s", text, exc_info=(kind, error, trace), extra=Event.FAILED(reason=text))


def _thread_ended(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is None or issubclass(what.exc_type, SystemExit):
        return
    text = f"{what.exc_type.__name__}: {what.exc_value}"
    trace = (what.exc_type, what.exc_value, what.exc_traceback)
    logging.getLogger(_NAME).error("%s", text, exc_info=trace, extra=Event.THREAD_FAILED(reason=text))
