# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Configures the logs of the host library (docs/watch.md, "Logs").

Without :func:`configure` and SUMWIRE_LOG_FORMAT the library logs to ``logging.getLogger("sumwire")``, and leaves all
else to the script.
"""

from __future__ import annotations

import logging
import os
from typing import Final, TextIO

from commonlib.logs import RULE, VARIABLE, Form, form_of, formatter

from sumwire.errors import ConfigError

PATTERN: Final = "%(asctime)s %(levelname)s %(message)s"
LEVELS: Final = ("debug", "info", "warning", "error")
_LOGGERS: Final = ("sumwire", "nativelib")
_WHERE: Final = "logs"

_handlers: list[logging.Handler] = []


def configure(form: str | None = None, level: str = "info", stream: TextIO | None = None) -> None:
    """Show the library's log lines, in the ``form`` "text" or "json"; None takes SUMWIRE_LOG_FORMAT, or else "text".

    ``level``: the lowest level that is shown. ``stream``: the output; None for standard error. A second call replaces
    the first. Lines then go to no other handler of the script. Raises ConfigError.
    """
    chosen = _form(form)
    if level not in LEVELS:
        raise ConfigError("level", level, f"must be {', '.join(LEVELS)}", where=_WHERE)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(chosen, PATTERN))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        for old in _handlers:
            logger.removeHandler(old)
        logger.addHandler(handler)
        logger.setLevel(level.upper())
        logger.propagate = False
    _handlers[:] = [handler]


def by_environment() -> None:
    """Configure by SUMWIRE_LOG_FORMAT, if it is set and :func:`configure` was not called. Raises ConfigError."""
    if os.environ.get(VARIABLE) and not _handlers:
        configure()


def shown() -> bool:
    """Return whether lines of level info and above are shown, by :func:`configure` or by SUMWIRE_LOG_FORMAT."""
    return bool(_handlers) and logging.getLogger("sumwire").isEnabledFor(logging.INFO)


def _form(name: str | None) -> Form:
    text = name or os.environ.get(VARIABLE) or Form.TEXT.value
    form = form_of(text)
    if form is None:
        raise ConfigError("form" if name else VARIABLE, text, RULE, where=_WHERE)
    return form
