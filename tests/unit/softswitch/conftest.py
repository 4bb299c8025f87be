# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The compiled test programs on both engines."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from commonlib import log_context
from helpers.softswitch.fixtures import engine, program_text, switch_for

__all__ = ["engine", "program_text", "switch_for"]


@pytest.fixture(autouse=True)
def own_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands that run in this process change its log: afterwards it is as it was."""
    monkeypatch.setattr(log_context, "_switch", [])
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
