# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An exchange that waits: when its patience is asked."""

from __future__ import annotations

from typing import Final

from sumwire.transport.connection import Connection
from sumwire.transport.patience import Patience

# Seconds between two questions to the patience.
TICK_S: Final = 0.25


class Waiting:
    """``next_at``: when :meth:`check` next has something to do, in seconds of the connection's clock."""

    def __init__(self, connection: Connection, patience: Patience) -> None:
        self._window = connection.window
        self._patience = patience
        self.next_at = self._window.progress_at + TICK_S

    def check(self, now: float) -> None:
        """Ask the patience if no result has come for long. Raises what it raises."""
        waited_s = now - self._window.progress_at
        if waited_s < TICK_S:
            self.next_at = self._window.progress_at + TICK_S
            return
        self.next_at = now + TICK_S
        self._patience.waiting(waited_s, None)
