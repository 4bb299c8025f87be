# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every statistic of a job is a metric of its own."""

from __future__ import annotations

from dataclasses import fields

import pytest
from sumwire.job.metrics import FIELDS, line_rate
from sumwire.transport.stats import JobStats

# The sum of the two that say why.
SUMS = {"retransmissions"}


def test_every_statistic_is_served_once() -> None:
    assert set(FIELDS) | SUMS == {field.name for field in fields(JobStats)}
    assert len({(metric.name, labels) for metric, labels in FIELDS.values()}) == len(FIELDS)
    for field, (metric, labels) in FIELDS.items():
        assert len(metric.labels) == 2 + len(labels), field
        assert ("seconds" in metric.name) == field.endswith("_s")
        assert ("bytes" in metric.name) == field.startswith("bytes")


@pytest.mark.parametrize(("told", "rate"), [("100", 12.5e6), ("0.8", 1e5)])
def test_line_rate_of_the_environment(told: str, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMWIRE_LINK_MBIT", told)
    assert line_rate("192.0.2.1") == rate
