# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Job files of five fields."""

from __future__ import annotations

from typing import Any

import pytest
from sumwire.config import parse_job
from sumwire.errors import ConfigError

FIVE: dict[str, Any] = {
    "format": 3, "name": "digits", "job": 7, "aggregator": "10.0.0.9", "hosts": ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
}  # fmt: skip


def test_five_fields_are_enough() -> None:
    config = parse_job(FIVE, 1)
    assert (config.workers, config.quorum, config.slots, config.ops) == (3, 3, 512, ("thc", "max32", "sum32"))
    assert [(a.ip, a.udp_port, a.seat) for a in config.addresses] == [(f"10.0.0.{k}", 21335, k - 1) for k in (1, 2, 3)]
    assert config.aggregator == "10.0.0.9" and config.thc is not None
    assert config.thc.granularity * 3 <= 255


def test_others_may_be_given() -> None:
    config = parse_job({**FIVE, "slots": 64, "ops": ["sum32", "max32"], "quorum": 2}, 0)
    assert (config.slots, config.ops, config.quorum) == (64, ("sum32", "max32"), 2)


def test_what_shares_an_address_has_ports_of_its_own() -> None:
    """Eight lanes fit between two of them."""
    config = parse_job({**FIVE, "hosts": ["10.0.0.9", "10.0.0.1", "10.0.0.1"]}, 0)
    assert [address.udp_port for address in config.addresses] == [21343, 21335, 21343]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": "10.0.0.1"}, "hosts = '10.0.0.1': must be a list"),
        ({"hosts": []}, "hosts = .*: must be a list"),
        ({"hosts": ["x"]}, "ip = 'x': must be an IPv4 address"),
        ({"aggregator": 5}, "aggregator = 5: must be a non-empty string"),
        ({"aggregator": []}, r"aggregator = \[\]: must be a non-empty string"),
        ({"addresses": []}, "addresses = .*must not be there with hosts"),
        ({"workers": 2}, "must have one entry for each of 2 workers"),
    ],
)
def test_broken_rules(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_job(FIVE | change, 0)


@pytest.mark.parametrize(
    ("missing", "message"),
    [("hosts", "aggregator = '10.0.0.9': unknown"), ("aggregator", "aggregator = None: is requ")],
)
def test_one_alone_is_not_enough(missing: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_job({name: value for name, value in FIVE.items() if name != missing}, 0)
