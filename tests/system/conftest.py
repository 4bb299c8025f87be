# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One server of forked workers for all runs of the lab in this process.

Runs that are processes of their own (test_lab_cleanup.py) start their workers as a user's runs do.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.lab.workers import forked_workers
from helpers.needs import missing


@pytest.fixture(scope="session")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if missing("mininet"):
        yield
        return
    with forked_workers(tmp_path_factory.mktemp("workers")):
        yield


@pytest.fixture(autouse=True, scope="module")
def workers_are_forked(request: pytest.FixtureRequest) -> None:
    if request.node.name.rpartition("/")[2].startswith("test_lab_"):
        request.getfixturevalue("_server")
