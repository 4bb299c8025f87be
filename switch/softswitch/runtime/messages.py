# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""P4's log_msg at run time."""

from __future__ import annotations

import logging

from softswitch.events import SwitchEvent

_log = logging.getLogger("softswitch.program")


def log_message(text: str, values: tuple[int, ...]) -> None:
    """Log ``text`` with each ``{}`` replaced by the next value."""
    if not _log.isEnabledFor(logging.INFO):
        return
    for value in values:
        text = text.replace("{}", str(value), 1)
    _log.info("%s", text, extra=SwitchEvent.PROGRAM_SAID())
