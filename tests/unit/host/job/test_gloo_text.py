# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from sumwire.job.gloo_group import first_clause


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        (
            "[/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:35549. This is typically "
            "caused by a remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF!",
            "Connection closed by peer [127.0.0.1]:35549",
        ),
        (
            "[/src/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
            "Timed out waiting 1800000ms for recv operation to complete",
        ),
        ("Application timeout caused pair closure\nException raised from f", "Application timeout caused pair closure"),
        (
            "an earlier collective was left: make it anew; make a new Job",
            "an earlier collective was left: make it anew",
        ),
        ("", ""),
    ],
)
def test_what_gloo_says_first(text: str, clause: str) -> None:
    assert first_clause(text) == clause
