# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The two forms of an aggregator."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.cc)], ids=["numpy", "native"])
def native(request: pytest.FixtureRequest) -> bool:
    """Whether C works on packets."""
    return bool(request.param)
