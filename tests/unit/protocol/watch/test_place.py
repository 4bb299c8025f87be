# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from sumwire_protocol.watch.errors import MetricsPlaceError
from sumwire_protocol.watch.place import Place, parse_place, place_of


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("9464", Place("127.0.0.1", 9464)),
        ("0", Place("127.0.0.1", 0)),
        ("10.0.0.1:65535", Place("10.0.0.1", 65535)),
        ("fd:3", Place("127.0.0.1", 0, 3)),
    ],
)
def test_place(text: str, place: Place) -> None:
    assert parse_place(text) == place


WRONG = ["", ":9464", "host:9464", "65536", "-1", "١", "10.0.0.1", "10.0.0.1:", "fd:", "fd:-1"]


@pytest.mark.parametrize("text", WRONG)
def test_a_text_that_is_no_place(text: str) -> None:
    with pytest.raises(MetricsPlaceError, match="give PORT or"):
        parse_place(text)


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, None),
        ({"SUMWIRE_METRICS": ""}, None),
        ({"SUMWIRE_METRICS": "9464"}, Place("127.0.0.1", 9464)),
        ({"SUMWIRE_METRICS": "9464", "LOCAL_RANK": "3"}, Place("127.0.0.1", 9467)),
        ({"SUMWIRE_METRICS": "0", "LOCAL_RANK": "3"}, Place("127.0.0.1", 0)),
        ({"SUMWIRE_METRICS": "fd:5", "LOCAL_RANK": "3"}, Place(socket=5)),
    ],
)
def test_place_of_an_environment(environment: dict[str, str], place: Place | None) -> None:
    assert place_of(environment) == place


def test_a_local_rank_above_all_ports() -> None:
    with pytest.raises(MetricsPlaceError):
        place_of({"SUMWIRE_METRICS": "65535", "LOCAL_RANK": "1"})
