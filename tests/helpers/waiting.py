# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Waits for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], patience_s: float = 300.0) -> None:
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.001)
