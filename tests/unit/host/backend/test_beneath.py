# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a group beneath is told, by version of torch."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch
from sumwire.backend.beneath import agree_on_count


@pytest.mark.parametrize(
    ("version", "told"), [("2.4.1", 1), ("2.9.1+cpu", 1), ("2.14.1", 1), ("2.15.0+cu132", 0), ("2.16.0", 0)]
)
def test_no_version_of_torch_warns_of_a_number_to_count_from(
    version: str, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    backend = Mock()
    agree_on_count(backend)
    assert backend._set_sequence_number_for_group.call_count == told
