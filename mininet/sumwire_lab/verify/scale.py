# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of `make verify-scale`: whether the simulator of large networks is right, and how fast it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from sumwire_lab.experiments import other_simulator
from sumwire_lab.experiments.free_slots import run_free_slots
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.simulate import days, flows, packets, slots, stragglers
from sumwire_lab.simulate.costs import Costs, costs_of
from sumwire_lab.simulate.systems import System, system_of
from sumwire_lab.simulate.workloads import Bucket, workload_of
from sumwire_lab.study.check import Check, absent, at_least, at_most, reported
from sumwire_lab.study.workers import in_child
from sumwire_lab.system.environments import AbsentError
from sumwire_lab.verify.plan import Experiments, Verification, shown_by
from sumwire_lab.verify.validation import validation

RACKS: Final = Fabric(workers=1000, levels=(32, 32), rate_bit_s=1e11)
BERT: Final = "bert-base"
_GIB: Final = 1 << 30
_KIB: Final = 1024
_HOURS: Final = 24.0
_YEAR_S: Final = 365 * 86_400.0


@dataclass(frozen=True)
class Amount:
    """A step's values, of a model with this many or of a part of it."""

    values: int


def rack_step(amount: Amount) -> dict[str, float]:
    """Simulate one exchange of 1000 workers, in a process of its own. Returns seconds, events and bytes of memory."""
    passes = packets.Passes(0.0, 0.0, [Bucket(amount.values, 0.0)])
    # Forgets the most memory that was used so far, by importing.
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak()
    began = time.process_time()
    found = packets.train(RACKS, system_of("thc"), passes, Costs())
    seconds = time.process_time() - began
    after = _peak()
    return {
        "seconds": seconds, "events": found.events, "bytes": after,
        "bytes_a_packet": (after - before) / found.packets,
    }  # fmt: skip


def _peak() -> int:
    """The most bytes of memory that this process has used."""
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) * _KIB


def _engine(v: Verification) -> list[Check]:
    values = workload_of(BERT).values
    found = in_child(rack_step, Amount(v.options.amount(values)))
    return [
        at_least("packets: events a second on one core, 1000 workers", found["events"] / found["seconds"], 3e6),
        at_most(
            "packets: bytes of memory a packet under way, slots and windows included", found["bytes_a_packet"], 200
        ),
        at_most(f"packets: THC, {BERT}, 1000 workers in 32 x 32, seconds of one core", found["seconds"], 300.0),
        at_most("packets: the same, GiB of memory", found["bytes"] / _GIB, 4.0),
        reported("packets: the same, events", found["events"]),
    ]


def _days(v: Verification) -> list[Check]:
    """A day of 100,000 workers, of which each fails once a year."""
    fabric = Fabric(workers=100_000, levels=(100, 100, 10), rate_bit_s=1e11)
    work = workload_of(BERT)
    began = time.process_time()
    made, back = (
        flows.step(fabric, system, work, costs_of("gpu", system, fabric))
        for system in map(system_of, ("thc-16", "gloo"))
    )
    failures = days.Failures(worker_mean_s=_YEAR_S, switch_mean_s=_YEAR_S)
    hours = v.options.amount(int(_HOURS))
    found = days.days(
        fabric, made, hours, fallback=back, slowness=stragglers.lognormal(0.05), failures=failures, seed=1
    )
    seconds = time.process_time() - began
    return [
        at_most(f"flows: {hours} hours of 100000 workers with failures, seconds of one core", seconds, 120.0),
        reported("flows: what stragglers and failures leave of the training", found.share(fabric, made)),
    ]


def _common(costs: Costs) -> Costs:
    """Without what the engines take differently: fixed costs, and shares that were fitted to the lab."""
    return replace(costs, operation_s=0.0, busy=1.0, apart=0.0)


def cells() -> list[tuple[Fabric, System, int, Costs]]:
    """Return the cells in which the engines are compared."""
    stars = [Fabric(workers=workers, rate_bit_s=rate) for workers in (2, 8, 32) for rate in (1e8, 1e9, 1e10)]
    trees = [
        Fabric(workers=64, levels=(16, 4), rate_bit_s=rate, spines=spines) for rate in (1e9, 1e10) for spines in (1, 2)
    ]
    return [
        (fabric, system_of(system), values, _common(costs_of(costs, system_of(system), fabric)))
        for fabric in (*stars, *trees)
        for system, values, costs in (
            ("thc", 1_000_000, "none"), ("thc", 1_000_000, "soft"), ("marsit", 3_000_000, "none"),
            ("sum32", 300_000, "none"),
        )
    ]  # fmt: skip


def _engines(v: Verification) -> list[Check]:
    """Compare exchanges by flows and by packets."""
    chosen = cells()
    off = []
    for fabric, system, values, costs in chosen[:: max(1, len(chosen) // v.options.amount(len(chosen)))]:
        passes = packets.Passes(0.0, 0.0, [Bucket(values, 0.0)])
        measured = packets.train(fabric, system, passes, costs).comm_s[0]
        off.append(flows.exchange(fabric, system, values, costs).seconds / measured)
    return [
        at_most(f"flows / packets, {len(off)} cells: largest difference", max(abs(one - 1) for one in off), 0.1),
        reported("flows / packets: mean", fmean(off)),
    ]


def _other(v: Verification) -> list[Check]:
    """Compare connections with ns-3's."""
    chosen = other_simulator.cells()
    chosen = chosen[:: len(chosen) // v.options.amount(len(chosen))]
    label = "packets / ns-3, nothing lost: largest difference"
    try:
        found = other_simulator.compared(chosen, other_simulator.environment())
    except AbsentError as error:
        return [absent(label, f"<= {_OTHER_MOST:g}", str(error))]
    off = [abs(one.ratio - 1) for one in found if one.cell.kind == other_simulator.KINDS[0]]
    return [
        at_most(f"{label} of {len(off)} cells", max(off), _OTHER_MOST),
        reported("packets / ns-3: seconds of each cell", {one.cell.name: round(one.ratio, 3) for one in found}),
    ]


_OTHER_MOST: Final = 0.01


def _slots(v: Verification) -> list[Check]:
    """Twenty jobs that come and go, at one switch."""
    # Round trips of 80 us: 20 jobs could use seven times the slots that there are.
    pool = slots.Pool(delay_s=2e-5)
    gains: dict[str, list[float]] = {rule: [] for rule in slots.RULES}
    for seed in range(1, 1 + v.options.amount(5)):
        jobs = slots.drawn_jobs(seed, gap_s=240.0)
        times = {rule: slots.play(jobs, rule, pool) for rule in slots.RULES}
        for rule, found in times.items():
            gains[rule].append(times["static"].mean_s / found.mean_s)
    best = max(gains, key=lambda rule: fmean(gains[rule]))
    label = "20 jobs on one switch: mean completion time, static shares / slots that are free on arrival, worst seed"
    return [
        at_least(label, min(gains["free"]), _GAIN_LEAST),
        at_least(
            f"20 jobs on one switch: mean completion time, static shares / {best}, worst seed",
            min(gains[best]),
            _GAIN_LEAST,
        ),
        reported("20 jobs on one switch: static shares / each rule, mean of the seeds", _rounded(gains)),
    ]


_GAIN_LEAST: Final = 1.3


def _free_slots(v: Verification) -> list[Check]:
    found = run_free_slots(v.results, v.say)
    label = "lab: 3 jobs, mean completion time, static shares / slots that are free on arrival"
    return [at_least(label, found["static"] / found["free"], _GAIN_LEAST)]


def _rounded(gains: Mapping[str, list[float]]) -> dict[str, Any]:
    return {rule: round(fmean(of), 2) for rule, of in gains.items()}


EXPERIMENTS: Final[Experiments] = {
    "analytic": shown_by(
        "packets: times that arithmetic knows", "exact to the nanosecond", "tests/unit/lab/simulate/test_packets.py"
    ),
    "host": shown_by(
        "packets: the window of the real transport and the simulated one, 1000 random schedules",
        "the same packets at the same times",
        "tests/differential/test_simulated_window.py",
    ),
    "connections": shown_by(
        "packets: CUBIC, BBR, DCTCP, pFabric, NDP",
        "as their sources say",
        "tests/unit/lab/simulate/test_connections.py",
    ),
    "other": _other,
    "engine": _engine,
    "days": _days,
    "engines": _engines,
    "slots": _slots,
    "free-slots": _free_slots,
    "validation": validation,
}
