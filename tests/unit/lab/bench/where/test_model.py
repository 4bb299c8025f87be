# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The formula of docs/where-it-pays.md against values computed by hand, those of the page's example among them."""

from __future__ import annotations

from math import inf

import pytest
from helpers.paths import ROOT
from sumwire.systems.formula import Costs, OneAllReduce, WireTraffic, processors_s, seconds, wire_s
from sumwire_lab.bench.where.formula import traffic

THC = Costs(host_s=10e-9, switch_s=1e-9, operation_s=0.001, step_s=0.001, busy=0.8, apart=0.5)
GLOO = Costs(host_s=5e-9, switch_s=0.0, operation_s=0.0005, step_s=0.0005, busy=0.8, apart=0.5)
SETTING = OneAllReduce(values=1_024_000, link_mbit=100.0, workers=4, cores=2)


def test_traffic_by_hand() -> None:
    # 1000 packets of 1098 bytes, after the norms.
    assert traffic("thc", 1_024_000, 4) == WireTraffic(1_098_000, 2)
    # A ring of four has six hops; 1.5 times 4,096,000 bytes in segments of 1448, frames of 1514.
    assert traffic("gloo", 1_024_000, 4) == WireTraffic(6_424_044, 6)
    # Up to 32 packets the norms go with the tensor. Signs have none.
    assert traffic("thc", 32 * 1024, 4).steps == 1
    assert traffic("thc", 32 * 1024 + 1, 4).steps == 2
    assert traffic("sum32", 33 * 256, 4).steps == 2
    assert traffic("sign", 33 * 8192, 4) == WireTraffic(33 * 1098, 1)


def test_wire_by_hand() -> None:
    # 8 * 1,090,000 / 100,000,000
    assert wire_s(1_090_000, 100.0) == pytest.approx(0.0872)
    assert wire_s(1_090_000, inf) == 0.0


def test_processors_by_hand() -> None:
    # A host 0.001 + 0.01024, the switch 0.004096; (4 * 0.01124 + 0.004096) / 2 / 0.8
    assert processors_s(THC, SETTING) == pytest.approx(0.03066)
    # With a core each it is the host's own 0.01124 / 0.8, and more cores change nothing.
    for cores in (5, 64):
        assert processors_s(THC, OneAllReduce(1_024_000, 100.0, 4, cores)) == pytest.approx(0.01405)
    # A slow switch is one thread: 4 * 1,024,000 * 20e-9 / 0.8
    slow = Costs(10e-9, 20e-9, 0.001, 0.001, 0.8, 0.5)
    assert processors_s(slow, OneAllReduce(1_024_000, 100.0, 4, 64)) == pytest.approx(0.1024)


def test_seconds_by_hand() -> None:
    thc = seconds(traffic("thc", 1_024_000, 4), THC, SETTING)
    gloo = seconds(traffic("gloo", 1_024_000, 4), GLOO, SETTING)
    # 2 * 0.001 + 0.08784 + 0.5 * 0.03066, and 6 * 0.0005 + 8 * 6,424,044 / 100,000,000 + 0.5 * 0.01405
    assert thc == pytest.approx(0.10517)
    assert gloo == pytest.approx(0.52394852)
    # Where processors are the longer, half of the wire is hidden behind them: 0.002 + 0.03066 + 0.5 * 0.00872
    fast = OneAllReduce(1_024_000, 1000.0, 4, 2)
    assert seconds(WireTraffic(1_090_000, 2), THC, fast) == pytest.approx(0.03702)


def test_the_pages_example_is_this_one() -> None:
    page = (ROOT / "docs" / "where-it-pays.md").read_text()
    for number in ("0.0878", "0.01124", "0.004096", "0.0307", "0.105", "0.514", "0.524", "5.0"):
        assert f" {number}" in page, number
