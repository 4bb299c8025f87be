# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the options of `sumwire up` become."""

from __future__ import annotations

import argparse

import pytest
from sumwire.start import options


@pytest.mark.parametrize("words", [["--hosts", "a,b", "c"], ["--hosts", "a", "--hosts", "b,c"]])
def test_hosts_may_be_given_in_any_portions(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    options.add_to(parser)
    for _ in range(2):
        assert options.chosen(parser.parse_args(words)).hosts == ("a", "b", "c")
