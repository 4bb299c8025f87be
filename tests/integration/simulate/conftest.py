# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps what the simulator's command changes in this process from later tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def levels_of_loggers() -> Iterator[None]:
    """The command lets the product say nothing."""
    loggers = [logging.getLogger(name) for name in ("sumwire", "softswitch")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)
