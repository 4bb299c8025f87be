# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The patience of a worker that knows nothing of the others."""

from __future__ import annotations

import pytest
from sumwire.errors import SwitchLostError
from sumwire.transport.options import Alone, DeadlinePassedError


def test_alone_waits_until_its_deadline() -> None:
    alone = Alone(10.0)
    alone.waiting(9.99, None)
    alone.waiting(9.99, [1, 2])
    with pytest.raises(DeadlinePassedError):
        alone.waiting(10.0, [1])


def test_alone_does_not_wait_for_a_lost_switch() -> None:
    error = SwitchLostError("gone", job=7)
    with pytest.raises(SwitchLostError) as caught:
        Alone(10.0).switch_lost(error)
    assert caught.value is error
    assert str(error) == "gone"
    assert error.job == 7
