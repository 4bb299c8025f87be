# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sumwire_lab.run.own_lab import with_addresses


def test_names_behind_the_first_word_become_addresses() -> None:
    addresses = {"h1": "10.0.0.1", "h2": "10.0.0.2"}
    assert with_addresses("h1 ping -c 1 h2", addresses) == "h1 ping -c 1 10.0.0.2"
    assert with_addresses("h1 echo  h2x h3", addresses) == "h1 echo  h2x h3"
