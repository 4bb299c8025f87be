# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `make verify-speed`, computed from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sumwire_lab.bench.commands.allreduce import Row, SizeRow
from sumwire_lab.bench.commands.switch import TRAINS
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.verify.check import Check, absent, at_least, equal, holds, reported
from sumwire_lab.verify.rows.shared import WHY_ABSENT, switch_rate

OVER_BMV2_MIN: Final = 8.0
OVER_PYTHON_MIN: Final = 6.0
TRAINS_MIN: Final = 4.0
# Rate of the load generator alone over that of the fastest switch. Below it, the generator would be the bottleneck.
GENERATOR_MIN: Final = 1.05
LINK_SHARE_MIN: Final = 0.85
CODEC_MS_MAX: Final = 15.0


@dataclass(frozen=True)
class Setting:
    """One all-reduce and its targets: least speed-up over gloo, and least utilisation of the link, by system."""

    name: str
    link_mbit: float
    values: int
    ratios: Mapping[str, float]
    link_share: Mapping[str, float]


SETTINGS: Final = (
    Setting("10 MB, 100 Mbit/s", 100.0, 2_500_000, {"thc": 5.0, "sign": 30.0}, {"thc": LINK_SHARE_MIN}),
    Setting("40 MB, 1 Gbit/s", 1000.0, 10_000_000, {"thc": 1.2, "sign": 6.0}, {}),
)


def rates(entry: Mapping[str, Any]) -> list[Check]:
    """Packets/s of the native engine against the other contenders. `entry`: bench-switch's for THC."""
    measured = entry["packets_per_second"]
    label = "soft switch, THC packets in over veth, 4 workers, native engine against"
    rows = [
        switch_rate(f"{label} bmv2", measured, "native", "bmv2", OVER_BMV2_MIN),
        switch_rate(f"{label} the Python engine", measured, "native", "python", OVER_PYTHON_MIN),
        switch_rate("soft switch, THC packets in, trains against one by one", measured, TRAINS, "native", TRAINS_MIN),
        reported("THC packets per second in", {name: round(rate) for name, rate in measured.items()}),
    ]
    over = entry["generator_alone"] / max(rate for name, rate in measured.items() if name != TRAINS)
    rows.append(at_least("load generator alone against the fastest switch", over, GENERATOR_MIN))
    if TRAINS in measured:
        over = entry["generator_alone_trains"] / measured[TRAINS]
        rows.append(at_least("load generator alone against the switch, trains", over, GENERATOR_MIN))
    return rows


def all_reduce(setting: Setting, results: Sequence[Row]) -> list[Check]:
    """One setting: speed-up over gloo, utilisation of the link, CPU time, packets lost."""
    by_system = {result.system: result for result in results}
    rows = {name: _row(result, setting) for name, result in by_system.items()}
    label = f"all-reduce, {setting.name}"
    done = [
        at_least(f"{label}: gloo / {name.upper()}", rows[BASELINE].seconds / rows[name].seconds, least)
        for name, least in setting.ratios.items()
    ]
    for name, least in setting.link_share.items():
        done.append(at_least(f"{label}: share of the downlink used, {name.upper()}", rows[name].link_share, least))
    done.append(reported(f"{label}: CPU seconds per million values, each host", _costs(rows, "host_cpu_s")))
    done.append(reported(f"{label}: CPU seconds per million values, switch", _costs(rows, "switch_cpu_s")))
    switched = {name: result for name, result in by_system.items() if name != BASELINE}
    return [*done, *(_lost(f"{label}: {name.upper()}", result) for name, result in switched.items())]


def _row(result: Row, setting: Setting) -> SizeRow:
    (row,) = (row for row in result.rows if row.values == setting.values)
    return row


def _costs(rows: Mapping[str, SizeRow], field: str) -> dict[str, float]:
    """By system; without those for which it is not known."""
    costs = {name: getattr(row, field) for name, row in rows.items()}
    return {name: round(cost, 5) for name, cost in costs.items() if cost is not None}


def _lost(label: str, result: Row) -> Check:
    """Packets lost inside switch and hosts, by place. Undecided if a place does not report its losses."""
    lost = result.lost.as_dict()
    label, target = f"{label}: packets lost inside switch, host and links' queues", "0"
    unknown = [place for place, count in lost.items() if count is None]
    known = all(count == 0 for count in lost.values() if count is not None)
    if unknown and known:
        return absent(label, target, f"not told: {', '.join(unknown)}", value=lost)
    return holds(label, lost, target, known)


def engine(summary: Mapping[str, Any]) -> list[Check]:
    """Switch, engine and link rate of `make run` without options."""
    mbit = summary["link_mbit"]
    used = [summary["switch"], summary["engine"]]
    if summary["engine"] == "python":
        first = absent("make run: switch and engine", "soft, native", WHY_ABSENT["native"], value=used)
    else:
        first = equal("make run: switch and engine", used, ["soft", "native"], "soft, native")
    return [first, equal("make run: Mbit/s of a link", mbit, 100)]
