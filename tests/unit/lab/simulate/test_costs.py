# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Costs are those of the records, so a record that is measured anew tells on them."""

from __future__ import annotations

import json
import re
from dataclasses import astuple, replace
from typing import Any, Final

import pytest
from helpers.paths import ROOT
from sumwire_lab.bench.where.grid import GridRecord
from sumwire_lab.errors import OptionError
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.simulate import costs
from sumwire_lab.simulate.costs import COSTS, MEASURED, SWITCHES, Costs, costs_of
from sumwire_lab.simulate.flows import exchange
from sumwire_lab.simulate.systems import SYSTEMS
from sumwire_protocol.ops import JUMBO, THC

SHORT, LONG = Fabric(), Fabric(mtu=9000)


def recorded(name: str, check: str, column: str = "value") -> Any:
    rows = json.loads((ROOT / "records" / f"{name}.json").read_text())["rows"]
    return next(row[column] for row in rows if check in row["check"])


@pytest.fixture(scope="module")
def grid() -> GridRecord:
    return GridRecord.load(ROOT / "docs" / "where-it-pays.json")


_ROW: Final = re.compile(r"^\| (\w+)(?:, (\w+))? \|" + r" ([\d.]+)(?: ns| ms)? \|" * 6 + "$", re.MULTILINE)
_UNITS: Final = (1e9, 1e9, 1e3, 1e3, 1.0, 1.0)
# The page has one digit of nanoseconds, and two of all else.
_ROUNDED: Final = (0.051, 0.051, 0.0051, 0.0051, 0.0051, 0.0051)


def test_measured_constants_are_those_of_the_page() -> None:
    text = (ROOT / "docs" / "where-it-pays.md").read_text().partition("### Constants of the formula")[2]
    rows = {(system, switch or "bridge"): list(map(float, rest)) for system, switch, *rest in _ROW.findall(text)}
    assert rows.keys() == MEASURED.keys()
    for place, row in rows.items():
        for told, found, unit, rounded in zip(row, astuple(MEASURED[place]), _UNITS, _ROUNDED, strict=True):
            assert abs(told - found * unit) <= rounded + 0.005 * told, place


def test_long_tensors_take_as_long_as_measured(grid: GridRecord) -> None:
    """From 10 million values on, by the record that the constants are from: half of them within 10 %."""
    ratios = []
    for key, cell in grid.cells.items():
        if key.values >= 10**7 and key.link_mbit <= 10_000:
            name = {"sign": "marsit"}.get(key.place.system, key.place.system)
            system = SYSTEMS[f"{name}@server" if key.place.switch == "aggregator" else name]
            fabric = Fabric(workers=grid.workers, rate_bit_s=key.link_mbit * 1e6, server_bit_s=1e12)
            switch = "soft" if key.place.switch == "bridge" else key.place.switch
            found = replace(costs_of(switch, system, fabric), cores=grid.cores)
            ratios.append(exchange(fabric, system, key.values, found, 4096).seconds / cell.seconds)
    assert len(ratios) > 40
    assert all(0.69 < ratio < 1.31 for ratio in ratios)
    assert sum(abs(ratio - 1) <= 0.1 for ratio in ratios) > 0.7 * len(ratios)


def test_ratios_are_those_of_the_records() -> None:
    assert recorded("speed", "links with jumbo frames", "earlier")[0] == pytest.approx(
        [1 / costs.JUMBO_VALUE["bmv2"], costs.JUMBO_VALUE["soft"]]
    )
    wide, thc = recorded("switch", "thc-wide, a million values, ms")[-1]
    assert pytest.approx(wide / thc) == costs.WIDE_CODEC


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_host_takes_its_measured_seconds_for_a_value(switch: str) -> None:
    found = costs_of(switch, SYSTEMS["thc"], SHORT)
    measured = MEASURED["thc", switch]
    host = (found.send_s + found.receive_s + found.coding_s(THC.values)) / THC.values
    assert host == pytest.approx(measured.host_s)
    assert found.adding_s(THC.values) / THC.values == pytest.approx(measured.switch_s)
    assert (found.operation_s, found.trip_s, found.busy, found.apart) == astuple(measured)[2:]
    assert found == costs_of(switch)


@pytest.mark.parametrize("switch", ["soft", "bmv2"])
def test_long_packets_cost_less_for_a_value(switch: str) -> None:
    short, long = (costs_of(switch, SYSTEMS["thc"], fabric) for fabric in (SHORT, LONG))
    ratio = (long.adding_s(JUMBO.values) / JUMBO.values) / (short.adding_s(THC.values) / THC.values)
    assert ratio == pytest.approx(costs.JUMBO_VALUE[switch])
    # Norms have packets as before.
    assert long.adding_s(0) == short.adding_s(0)
    assert long.coding_s(1000) == short.coding_s(1000)


def test_systems_have_codecs_of_their_own() -> None:
    coded = {name: costs_of("soft", SYSTEMS[name], SHORT).coding_s(1) for name in SYSTEMS}
    assert coded["marsit"] == coded["vote"] < coded["thc"] < coded["sum32"]
    assert coded["thc-wide"] == pytest.approx(coded["thc"] * costs.WIDE_CODEC)
    gloo, measured = costs_of("soft", SYSTEMS["gloo"], SHORT), MEASURED["gloo", "bridge"]
    assert (gloo.plain_s, gloo.busy) == (measured.host_s, measured.busy)


def test_nothing_costs_nothing_and_a_gpu_next_to_nothing() -> None:
    assert costs_of("none", SYSTEMS["thc"], SHORT) == Costs()
    gpu, soft = (costs_of(name, SYSTEMS["thc"], SHORT) for name in ("gpu", "soft"))
    assert gpu.encode_s < soft.encode_s / 100
    assert gpu.send_s + gpu.receive_s == costs.PACKET_S


def test_what_is_not_hidden_adds_to_the_longer() -> None:
    assert Costs().whole_s(3.0, 2.0) == 3
    assert Costs(apart=0.5).whole_s(3.0, 2.0) == 4
    assert Costs(busy=0.5).whole_s(3.0, 2.0) == 4
    assert Costs(busy=0.5, apart=0.25).whole_s(3.0, 2.0) == 4.75


def test_wrong_costs_are_refused() -> None:
    assert COSTS == ("none", "soft", "aggregator", "bmv2", "gpu")
    for wrong, told in [
        (lambda: costs_of("tofino", SYSTEMS["thc"], SHORT), "costs=tofino: known are none, soft, aggregator, bmv2"),
        (lambda: Costs(busy=0.0), "busy=0.0: must be above 0"),
        (lambda: Costs(apart=1.5), "apart=1.5: must be 0 to 1"),
        (lambda: Costs(cores=-1), "cores=-1: must be at least 0"),
    ]:
        with pytest.raises(OptionError, match=told):
            wrong()
