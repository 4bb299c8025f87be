# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The two forms of an aggregator."""

from __future__ import annotations

import pytest
from sumwire.native import SWITCH


@pytest.fixture(params=["numpy", pytest.param("native", marks=pytest.mark.cc)])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What works on packets."""
    monkeypatch.setenv(SWITCH, "1" if request.param == "native" else "0")
    return str(request.param)
