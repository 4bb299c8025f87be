# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One torch thread for all tests of the host library, and gloo ranks that all modules share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.gloo.ranks import Ranks
from helpers.torch_threads import one_torch_thread

__all__ = ["one_torch_thread"]


@pytest.fixture(scope="session")
def started_ranks() -> Iterator[dict[int, Ranks]]:
    """By their number. They live until the session ends, or a case fails."""
    started: dict[int, Ranks] = {}
    yield started
    for ranks in started.values():
        ranks.close()


@pytest.fixture(scope="module")
def ranks(
    request: pytest.FixtureRequest, started_ranks: dict[int, Ranks], tmp_path_factory: pytest.TempPathFactory
) -> Ranks:
    """As many as the module's RANKS says, with a default group of gloo."""
    count: int = request.module.RANKS
    if count in started_ranks and started_ranks[count].spoiled:
        started_ranks.pop(count).close()
    if count not in started_ranks:
        started_ranks[count] = Ranks(count, tmp_path_factory.mktemp("ranks"))
    return started_ranks[count]
