# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ThreadSanitizer finds a race in C that Python's threads call, and none in ours. More tests: ``make races``."""

from __future__ import annotations

import subprocess

import pytest
from fuzz.races import PLANTS, environment, race
from nativelib import NativeError

PLANT = PLANTS["a run's token is read without care"]


@pytest.fixture(scope="module", autouse=True)
def sanitizer() -> None:
    try:
        environment()
    except (NativeError, FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no ThreadSanitizer: {error}")


@pytest.mark.long
def test_none_is_found() -> None:
    result = race([PLANT.tests])
    assert (result.passed, result.failed, result.races) == (1, "", [])


@pytest.mark.long
def test_one_that_was_planted_is_found() -> None:
    assert race([PLANT.tests], PLANT).races[0].startswith("data race")
