# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The compiled test programs on both engines, and veth pairs to run them on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.softswitch.fixtures import engine, program_text, switch_for
from helpers.softswitch.veths import veth_pairs

__all__ = ["engine", "program_text", "switch_for", "wires"]


@pytest.fixture
def wires() -> Iterator[dict[int, str]]:
    """Two veth pairs: ports 1 and 2 of the switch."""
    with veth_pairs(2) as pairs:
        yield pairs
