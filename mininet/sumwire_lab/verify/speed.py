# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-speed`: the experiments and checks for every number promised for speed, against gloo with its
offloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sumwire_protocol.ops import JUMBO, THC

from sumwire_lab.bench import allreduce, interleaved, switch
from sumwire_lab.bench.benchmark import Row, Rows
from sumwire_lab.bench.switch import TRAINS
from sumwire_lab.experiments import signs_alone
from sumwire_lab.options.bench_options import AllReduceOptions, InterleavedOptions, SwitchBenchOptions
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.results import ratio
from sumwire_lab.study.check import Check, absent, at_least, at_most, equal, holds, reported
from sumwire_lab.verify import plan
from sumwire_lab.verify.plan import (
    WHY_ABSENT,
    Experiments,
    Verification,
    aggregator_us,
    codec_record,
    needs_bmv2,
    switch_rate,
)

OVER_BMV2_MIN: Final = 8.0
OVER_PYTHON_MIN: Final = 6.0
TRAINS_MIN: Final = 4.0
# Rate of the load generator alone over that of the fastest switch. Below it, the generator would be the bottleneck.
GENERATOR_MIN: Final = 1.05
LINK_SHARE_MIN: Final = 0.85
# CPU microseconds of a THC contribution in the software aggregator before it took trains, and how many times less it
# is to be.
AGGREGATOR_BEFORE_US: Final = 2.4
AGGREGATOR_MIN: Final = 4.0
# Packets/s of THC into bmv2 before its program was rewritten.
BMV2_BEFORE: Final = 12_000
BMV2_RUN_MIN: Final = 2.8
BMV2_RUN: Final = "make run SWITCH=bmv2, 100 Mbit/s: communication time per step, gloo / Sumwire"
# Bytes of the links' packets where those of THC have 8192 values.
LONG_MTU: Final = 9000
LONG_RATE_MIN: Final = 4.0
LONG_CPU_MAX: Final = 0.5
LONG_RUN_MIN: Final = 4.0
LONG_RUN: Final = f"{BMV2_RUN}, MTU {LONG_MTU}"
THC_LOOPBACK_MIN: Final = 0.7
# Of the automatic choice, which can always choose gloo.
AUTO_MIN: Final = 0.95
SMALL_SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000)
# Mbit/s: from how many values on the automatic choice must be faster than gloo, and how much.
FASTER_FROM: Final = {100.0: (30_000, 1.5)}
SMALL_RATES: Final = (100.0, 1000.0)
LOOPBACK_VALUES: Final = 5_000_000
# Two ways that both are gloo's differ by 3 % with 100 repeats, and by 10 % with 30.
LOOPBACK_REPEATS: Final = 100


@dataclass(frozen=True)
class SpeedTargets:
    """One all-reduce and its targets, by system."""

    name: str
    link_mbit: float
    values: int
    ratios: Mapping[str, float]
    """Least speed-up over gloo."""
    link_share: Mapping[str, float] = field(default_factory=dict)
    """Least utilisation of the link."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    """Most CPU time of a host, over that of one with gloo."""
    mtu: int = LinkOptions.mtu


SETTINGS: Final = (
    SpeedTargets("10 MB, 100 Mbit/s", 100.0, 2_500_000, {"thc": 5.5, "sign": 38.0}, link_share={"thc": LINK_SHARE_MIN}),
    SpeedTargets("40 MB, 1 Gbit/s", 1000.0, 10_000_000, {"thc": 3.5, "sign": 16.0}, cpu={"thc": 1.0}),
    SpeedTargets("100 MB, 10 Gbit/s", 10_000.0, 25_000_000, {"thc": 1.0, "sign": 3.0}),
    SpeedTargets(
        f"100 MB, 10 Gbit/s, MTU {LONG_MTU}", 10_000.0, 25_000_000, {"thc": 2.0}, cpu={"thc": 0.4}, mtu=LONG_MTU
    ),
)


def rate_checks(entry: Mapping[str, Any]) -> list[Check]:
    """Check packets/s of the native engine against the other contenders. `entry`: bench-switch's for THC."""
    measured = entry["packets_per_second"]
    label = "soft switch, THC packets in over veth, 4 workers, native engine against"
    rows = [
        switch_rate(f"{label} bmv2", measured, "native", "bmv2", OVER_BMV2_MIN),
        switch_rate(f"{label} the Python engine", measured, "native", "python", OVER_PYTHON_MIN),
        switch_rate("soft switch, THC packets in, trains against one by one", measured, TRAINS, "native", TRAINS_MIN),
        reported("THC packets per second in", {name: round(rate) for name, rate in measured.items()}),
        _bmv2_rate(measured),
    ]
    over = entry["generator_alone"] / max(rate for name, rate in measured.items() if name != TRAINS)
    rows.append(at_least("load generator alone against the fastest switch", over, GENERATOR_MIN))
    if TRAINS in measured:
        over = entry["generator_alone_trains"] / measured[TRAINS]
        rows.append(at_least("load generator alone against the switch, trains", over, GENERATOR_MIN))
    return rows


def _bmv2_rate(measured: Mapping[str, float]) -> Check:
    """Without a ratio: the program of before is not there to be measured in the same run."""
    label = f"bmv2, THC packets per second in; before its program was rewritten, on another day, {BMV2_BEFORE:,}"
    if "bmv2" not in measured:
        return absent(label, "reported", WHY_ABSENT["bmv2"])
    return reported(label, round(measured["bmv2"]))


def long_packet_checks(ops: Mapping[str, Any]) -> list[Check]:
    """Check what packets of 8192 values bring a switch. ``ops``: bench-switch's entries for THC and JUMBO."""
    short, long = ops[THC.name], ops[JUMBO.name]
    values = JUMBO.values / THC.values
    rows = []
    if "bmv2" in short["packets_per_second"]:
        rate = long["packets_per_second"]["bmv2"] / short["packets_per_second"]["bmv2"] * values
        rows.append(at_least("bmv2, values per second, packets of 8192 / of 1024", rate, LONG_RATE_MIN))
    if "native" in short["cpu_us"]:
        cpu = long["cpu_us"]["native"] / short["cpu_us"]["native"] / values
        rows.append(at_most("native engine, CPU time of a value, packets of 8192 / of 1024", cpu, LONG_CPU_MAX))
    return rows


def all_reduce_checks(setting: SpeedTargets, results: Rows) -> list[Check]:
    """Check one setting: speed-up over gloo, utilisation of the link, CPU time, offloads, packets lost."""
    by_system = {result["system"]: result for result in results}
    rows = {name: _row(result, setting) for name, result in by_system.items()}
    label = f"all-reduce, {setting.name}"
    done = [
        at_least(f"{label}: gloo / {name.upper()}", rows[BASELINE]["seconds"] / rows[name]["seconds"], least)
        for name, least in setting.ratios.items()
    ]
    for name, least in setting.link_share.items():
        done.append(at_least(f"{label}: share of the downlink used, {name.upper()}", rows[name]["link_share"], least))
    for name, most in setting.cpu.items():
        over = rows[name]["host_cpu_s"] / rows[BASELINE]["host_cpu_s"]
        done.append(at_most(f"{label}: CPU time of a host per value, {name.upper()} / gloo", over, most))
    done.append(_offloads(label, by_system))
    done.append(reported(f"{label}: CPU seconds per million values, each host", _costs(rows, "host_cpu_s")))
    done.append(reported(f"{label}: CPU seconds per million values, switch", _costs(rows, "switch_cpu_s")))
    switched = {name: result for name, result in by_system.items() if name != BASELINE}
    return [*done, *(_lost(f"{label}: {name.upper()}", result) for name, result in switched.items())]


def _offloads(label: str, results: Mapping[str, Row]) -> Check:
    kept = {name: result["offloads"] for name, result in results.items()}
    return equal(f"{label}: hosts kept their segmentation offloads", kept, dict.fromkeys(kept, True), "all")


def small_tensor_checks(link_mbit: float, results: Rows) -> list[Check]:
    """Check the ratio of gloo to the automatic choice at one link rate, by size."""
    label = f"tensors of %s values, {link_mbit:g} Mbit/s: gloo / automatic choice"
    faster_from, faster = FASTER_FROM.get(link_mbit, (0, AUTO_MIN))
    rows = [
        at_least(label % f"{row['values']:,}", row["speed_up"], faster if row["values"] >= faster_from else AUTO_MIN)
        for row in results
    ]
    by_group = {f"{row['values']:,}": row["by_group"] for row in results}
    return [*rows, reported(f"tensors at {link_mbit:g} Mbit/s that went by the process group, share", by_group)]


def loopback_checks(results: Rows) -> list[Check]:
    """Check ranks on one machine: gloo over THC through the aggregator, and over the automatic choice."""
    ratios = {row["system"]: row["speed_up"] for row in results}
    label = f"four ranks on one machine, {LOOPBACK_VALUES:,} values, software aggregator: gloo /"
    by_group = {row["system"]: row["by_group"] for row in results}
    return [
        at_least(f"{label} THC", ratios["thc"], THC_LOOPBACK_MIN),
        at_least(f"{label} automatic choice", ratios["auto"], AUTO_MIN),
        reported("four ranks on one machine: share that went by the process group", by_group),
    ]


def aggregator_checks(cpu_us: float) -> list[Check]:
    """Check the CPU time of a THC contribution against the time before trains were used."""
    label = f"software aggregator, CPU time of a THC contribution: {AGGREGATOR_BEFORE_US:g} us, before trains, / now"
    return [
        at_least(label, AGGREGATOR_BEFORE_US / cpu_us, AGGREGATOR_MIN),
        reported("software aggregator, us of CPU per THC contribution", round(cpu_us, 3)),
    ]


def bmv2_run_checks(summary: dict[str, Any]) -> list[Check]:
    """Check `make run SWITCH=bmv2` at the default rate."""
    comm = ratio(summary, "comm_s_per_step", "thc")
    return [at_least(BMV2_RUN, comm, BMV2_RUN_MIN)]


def _row(result: Row, setting: SpeedTargets) -> Row:
    (row,) = (row for row in result["rows"] if row["values"] == setting.values)
    return dict(row)


def _costs(rows: Mapping[str, Row], field: str) -> dict[str, float]:
    """Return the cost by system. Systems with unknown cost are omitted."""
    costs = {name: row[field] for name, row in rows.items()}
    return {name: round(cost, 5) for name, cost in costs.items() if cost is not None}


def _lost(label: str, result: Row) -> Check:
    """Packets lost inside switch and hosts, by place. Undecided if a place does not report its losses."""
    lost = result["lost"]
    label, target = f"{label}: packets lost inside switch, host and links' queues", "0"
    unknown = [place for place, count in lost.items() if count is None]
    known = all(count == 0 for count in lost.values() if count is not None)
    if unknown and known:
        return absent(label, target, f"not told: {', '.join(unknown)}", value=lost)
    return holds(label, lost, target, known)


def engine_checks(summary: Mapping[str, Any]) -> list[Check]:
    """Check switch, engine and link rate of `make run` without options."""
    mbit = summary["link_mbit"]
    used = [summary["switch"], summary["engine"]]
    if summary["engine"] == "python":
        first = absent("make run: switch and engine", "soft, native", WHY_ABSENT["native"], value=used)
    else:
        first = equal("make run: switch and engine", used, ["soft", "native"], "soft, native")
    return [first, equal("make run: Mbit/s of a link", mbit, 100)]


# Of each system; so many that the median is that of the next run too.
REPEATS: Final = 9
# Small tensors differ more from one time to the next, and a twentieth is to be seen.
SMALL_REPEATS: Final = 200
# bmv2 needs no whole training to show what a step takes.
BMV2_STEPS: Final = 30


def _rates(v: Verification) -> list[Check]:
    bench = switch.bench(SwitchBenchOptions())
    return rate_checks(bench.record(v.rows(bench))["ops"]["thc"])


def _all_reduce(setting: SpeedTargets, v: Verification) -> list[Check]:
    options = AllReduceOptions(
        sizes=(setting.values,),
        bw=(setting.link_mbit,),
        systems=(BASELINE, *setting.ratios),
        mtu=setting.mtu,
        repeats=REPEATS,
    )
    return all_reduce_checks(setting, v.rows(allreduce.bench(options)))


def _small(link_mbit: float, v: Verification) -> list[Check]:
    options = InterleavedOptions(SMALL_SIZES, (link_mbit,), ("auto",), repeats=SMALL_REPEATS)
    return small_tensor_checks(link_mbit, v.rows(interleaved.bench(options)))


def _loopback(v: Verification) -> list[Check]:
    options = InterleavedOptions((LOOPBACK_VALUES,), repeats=LOOPBACK_REPEATS)
    return loopback_checks(v.rows(interleaved.bench(options)))


def _run(v: Verification) -> list[Check]:
    """Check a run with the options of `make run`."""
    options = RunOptions()
    summary = v.summary(options)
    systems = summary["systems"]
    return [
        *engine_checks(summary),
        *plan.speed(summary, "make run"),
        *plan.accuracy_checks("make run", systems["thc"], systems["gloo"], signs_alone.accuracy(options.train)),
    ]


@needs_bmv2(BMV2_RUN, f">= {BMV2_RUN_MIN:g}")
def _run_bmv2(v: Verification) -> list[Check]:
    return bmv2_run_checks(v.summary(RunOptions(switch="bmv2", train=TrainOptions(max_steps=BMV2_STEPS))))


def _long_packets(v: Verification) -> list[Check]:
    contenders = tuple(name for name in switch.present() if name in ("native", "bmv2"))
    bench = switch.bench(SwitchBenchOptions((THC.name, JUMBO.name), contenders))
    return long_packet_checks(bench.record(v.rows(bench))["ops"])


@needs_bmv2(LONG_RUN, f">= {LONG_RUN_MIN:g}")
def _long_run_bmv2(v: Verification) -> list[Check]:
    """Run the training of `make run SWITCH=bmv2` on links with jumbo frames. gloo has them as well."""
    options = RunOptions(switch="bmv2", link=LinkOptions(mtu=LONG_MTU), train=TrainOptions(max_steps=BMV2_STEPS))
    return [at_least(LONG_RUN, ratio(v.summary(options), "comm_s_per_step", "thc"), LONG_RUN_MIN)]


EXPERIMENTS: Final[Experiments] = {
    "packets per second": _rates,
    **{f"all-reduce, {one.name}": partial(_all_reduce, one) for one in SETTINGS},
    **{f"small tensors, {rate:g} Mbit/s": partial(_small, rate) for rate in SMALL_RATES},
    "four ranks on one machine": _loopback,
    "software aggregator": lambda v: aggregator_checks(aggregator_us(v.results)),
    "codec": lambda v: [plan.codec(codec_record(v.results))],
    "make run": _run,
    "make run SWITCH=bmv2": _run_bmv2,
    "long packets": _long_packets,
    "make run SWITCH=bmv2, long packets": _long_run_bmv2,
}
