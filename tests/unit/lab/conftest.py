# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Studies in this process alone."""

from __future__ import annotations

import pytest
from sumwire_lab.study import records


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records would ask git for the checkout's commit, in a process."""
    monkeypatch.setattr(records, "commit", lambda: "none")
