# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where a rank takes its job from: what the script says, then the environment."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from helpers.logs import events_of
from sumwire.start import place
from sumwire.start.child import Say
from sumwire.start.errors import PlaceError
from sumwire.start.fetch import Service
from sumwire.start.place import Source
from sumwire_protocol.logs.events import Event


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("SUMWIRE_SERVICE", "SUMWIRE_JOB", "SUMWIRE_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_environment_names_a_job_file(environment: pytest.MonkeyPatch) -> None:
    assert Source().checked() == Source()
    environment.setenv("SUMWIRE_JOB", "/run/job.json")
    assert Source().checked() == Source(job="/run/job.json")


def test_a_service_of_the_environment_goes_before_a_file_of_it(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("SUMWIRE_JOB", "/run/job.json")
    environment.setenv("SUMWIRE_SERVICE", "10.0.0.9")
    assert Source().checked() == Source(service="10.0.0.9")


@pytest.mark.parametrize("given", [Source(job=Path("own.json")), Source(service="a"), Source(aggregator="rank0")])
def test_what_the_script_says_goes_before_the_environment(environment: pytest.MonkeyPatch, given: Source) -> None:
    environment.setenv("SUMWIRE_JOB", "/run/job.json")
    environment.setenv("SUMWIRE_SERVICE", "10.0.0.9")
    assert given.checked() == given


def test_two_sources_are_refused() -> None:
    with pytest.raises(PlaceError, match="service and job: must be one of them"):
        Source(service="a", job="b").checked()


def test_a_wait_for_the_service_is_told(caplog: pytest.LogCaptureFixture, environment: pytest.MonkeyPatch) -> None:
    """Rank 0 asks with the time that the script has given, and says what it waits for."""

    def first_of(services: list[Service], wait_s: float, tell: Say) -> tuple[Service, dict[str, str]]:
        tell(f"{', '.join(map(str, services))} for {wait_s}")
        return services[0], {}

    environment.setattr(place, "first_of", first_of)
    told = [{"machine": "m", "address": "127.0.0.1", "service": "10.0.0.9", "master": ""}]
    with caplog.at_level(logging.WARNING, "sumwire"):
        place._described(Source(wait_s=7), told, False, [])
    assert caplog.messages == ["http://10.0.0.9:21334 for 7"]
    assert events_of(caplog.records) == [Event.SERVICE_AWAITED]
