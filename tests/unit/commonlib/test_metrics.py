# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from commonlib.metrics import MetricsEndpoint, MetricsEndpointError, endpoint_of, parse_endpoint


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("9464", MetricsEndpoint("127.0.0.1", 9464)),
        ("0", MetricsEndpoint("127.0.0.1", 0)),
        ("10.0.0.1:65535", MetricsEndpoint("10.0.0.1", 65535)),
        ("fd:3", MetricsEndpoint("127.0.0.1", 0, 3)),
    ],
)
def test_place(text: str, place: MetricsEndpoint) -> None:
    assert parse_endpoint(text) == place


WRONG = ["", ":9464", "host:9464", "65536", "-1", "١", "10.0.0.1", "10.0.0.1:", "fd:", "fd:-1"]


@pytest.mark.parametrize("text", WRONG)
def test_a_text_that_is_no_place(text: str) -> None:
    with pytest.raises(MetricsEndpointError, match="give PORT or"):
        parse_endpoint(text)


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, None),
        ({"SUMWIRE_METRICS": ""}, None),
        ({"SUMWIRE_METRICS": "9464"}, MetricsEndpoint("127.0.0.1", 9464)),
        ({"SUMWIRE_METRICS": "9464", "LOCAL_RANK": "3"}, MetricsEndpoint("127.0.0.1", 9467)),
        ({"SUMWIRE_METRICS": "0", "LOCAL_RANK": "3"}, MetricsEndpoint("127.0.0.1", 0)),
        ({"SUMWIRE_METRICS": "fd:5", "LOCAL_RANK": "3"}, MetricsEndpoint(socket=5)),
    ],
)
def test_place_of_an_environment(environment: dict[str, str], place: MetricsEndpoint | None) -> None:
    assert endpoint_of(environment) == place


def test_a_local_rank_above_all_ports() -> None:
    with pytest.raises(MetricsEndpointError):
        endpoint_of({"SUMWIRE_METRICS": "65535", "LOCAL_RANK": "1"})
