# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Costs are those of the records, so a record that is measured anew tells on them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.paths import ROOT
from sumwire_lab.errors import OptionError
from sumwire_lab.simulate import costs
from sumwire_lab.simulate.costs import COSTS, Costs, costs_of
from sumwire_protocol.ops import SIGN, SUM32, THC

# Records of other days and machines differ by as much.
NEAR = 2.5


def recorded(name: str, check: str) -> Any:
    rows = json.loads((ROOT / "records" / f"{name}.json").read_text())["rows"]
    return next(row["value"] for row in rows if check in row["check"])


def host_s(system: str, switch: str) -> float:
    cells = json.loads((ROOT / "docs" / "where-it-pays.json").read_text())["cells"]
    return next(
        cell["host_cpu_s"] / 1e6
        for cell in cells
        if (cell["system"], cell["switch"], cell["link_mbit"], cell["values"]) == (system, switch, 10_000.0, 10**8)
    )


def near(found: float, measured: float) -> bool:
    return 1 / NEAR < found / measured < NEAR


def test_named_costs_are_measured_ones() -> None:
    assert near(costs.BMV2_PACKETS_S, recorded("speed", "bmv2, THC packets/s in"))
    assert near(costs.SOFT_PACKET_S, 1e-6 * recorded("switch", "THC: native engine one by one")[1])
    assert near(costs.CODEC_VALUE_S, 1e-9 * recorded("speed", "codec, a million values"))
    assert near(COSTS["aggregator"].add_s, 2.4e-6 / recorded("speed", "software aggregator, 2.4 us"))
    assert near(costs.GLOO_VALUE_S, host_s("gloo", "bridge"))
    for op, system in ((THC, "thc"), (SUM32, "sum32"), (SIGN, "sign")):
        assert near(costs._HOST_VALUE_S[op], host_s(system, "soft"))


def test_an_ops_codec_is_in_proportion_to_thcs() -> None:
    for name in COSTS:
        assert costs_of(name) == costs_of(name, THC) == COSTS[name]
        thc, signs, sums = (costs_of(name, op).encode_s for op in (THC, SIGN, SUM32))
        assert signs <= thc <= sums
        assert costs_of(name, SIGN).add_s == COSTS[name].add_s


def test_nothing_costs_nothing() -> None:
    assert COSTS["none"] == Costs()
    assert COSTS["gpu"].encode_s < COSTS["soft"].encode_s / 100


def test_unknown_costs_are_refused() -> None:
    with pytest.raises(OptionError, match="costs=tofino: known are none, bmv2, soft, aggregator, gpu"):
        costs_of("tofino")
