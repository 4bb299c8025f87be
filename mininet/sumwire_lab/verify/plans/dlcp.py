# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-dlcp`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sumwire_lab.experiments.contention import run_contention
from sumwire_lab.experiments.failover import run_failover
from sumwire_lab.experiments.overload import run_overload
from sumwire_lab.experiments.spines import run_spines
from sumwire_lab.options.conditions import Conditions, OfHost
from sumwire_lab.options.priority_lanes import Degrade, LanedOptions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Plan
from sumwire_lab.verify.plans import dlcp_bad_input as bad_input
from sumwire_lab.verify.processes import without_bmv2
from sumwire_lab.verify.rows import dlcp as rows

DLCP: Final = ("dlcp",)
# A rate at which the links, not the two cores of a small machine, limit a step.
LINK: Final = LinkOptions(20.0)
TRAIN: Final = TrainOptions()
LOSS: Final = Conditions(loss=0.01)
BOUNDED: Final = LanedOptions(loss_bound=0.03)
RELIABLE: Final = LanedOptions(loss_bound=0.0)
# Computing takes as long as communication here, so that without a quorum one straggler would delay all workers.
SLOW_LINK: Final = LinkOptions(100.0)
SLOW_TRAIN: Final = TrainOptions(batch=320, epochs=60)
STRAGGLER: Final = Conditions(gray=OfHost(2, 0.01), slow=OfHost(4, 3.0))
QUORUM: Final = LanedOptions(quorum=3, loss_bound=0.03)
CONGESTED: Final = Conditions(loss=0.01, background=0.5)
CONGESTED_SYSTEMS: Final = ("gloo", "thc", "dlcp")
# A few epochs more than the target takes; with gloo a step takes seconds.
CONGESTED_TRAIN: Final = TrainOptions(epochs=4)
# Few steps, so that the missing contributions still show in the accuracy.
TRIM_TRAIN: Final = TrainOptions(max_steps=30, nmse_samples=20)
TRIM_LINK: Final = LinkOptions(100.0)
TRIM_SHARE: Final = 0.2
TRIM_SEEDS: Final = (1, 2, 3)


def plan(results: Path, say: Say) -> Plan:
    """Tagged packets: bad input, drop classes, priorities, spraying, failover, bounded loss, stragglers, trimming."""
    runs = Runs(results, say)
    return Plan(
        "dlcp",
        {
            "bad input": bad_input.checks,
            "overload, soft switch": lambda: rows.overload(run_overload("soft", results, say)),
            "overload, bmv2": lambda: _overload_on_bmv2(results, say),
            "two tensors": lambda: rows.contention(run_contention(results, say)),
            "two spines": lambda: rows.spines(run_spines(results, say)),
            "a dead spine": lambda: rows.failover(run_failover(results, say)),
            "bounded loss": runs.bounded,
            "full reliability": runs.reliable,
            "a slow worker and a lossy link": runs.straggler,
            "trimming": runs.trimming,
            "congested": runs.congested,
        },
    )


def _overload_on_bmv2(results: Path, say: Say) -> list[Check]:
    label = "overload, bmv2"
    absent = without_bmv2(label, "as on the soft switch")
    if absent:
        return absent
    return [replace(check, check=f"bmv2: {check.check}") for check in rows.overload(run_overload("bmv2", results, say))]


class Runs:
    """The training runs. Each method makes the two or more runs that it compares."""

    def __init__(self, results: Path, say: Say) -> None:
        self._results = results
        self._say = say

    def bounded(self) -> list[Check]:
        """1 % loss on every link, p = 3 %."""
        return self._lossy("1 % loss on every link, bounded (p = 3 %)", BOUNDED, rows.BOUNDED_MAX)

    def reliable(self) -> list[Check]:
        """1 % loss on every link, nothing missing."""
        return self._lossy("1 % loss on every link, full reliability", RELIABLE, rows.RELIABLE_MAX)

    def straggler(self) -> list[Check]:
        """One worker is slow and the link of another one is lossy; the quorum is one below the number of workers."""
        healthy = RunOptions(switch="soft", systems=DLCP, link=SLOW_LINK, train=SLOW_TRAIN, laned=QUORUM)
        slowed = replace(healthy, conditions=STRAGGLER)
        return rows.straggler(self._dlcp(healthy), self._dlcp(slowed))

    def trimming(self) -> list[Check]:
        """One run trims some packets, another one drops them."""
        cut, dropped = self._degraded("trim"), self._degraded("drop")
        return [*rows.trimming(_mean(cut), _mean(dropped)), *(rows.replicas("cut", one) for one in cut)]

    def congested(self) -> list[Check]:
        """Background TCP at half of every link, 1 % loss."""
        options = RunOptions(
            switch="soft",
            systems=CONGESTED_SYSTEMS,
            link=LINK,
            train=CONGESTED_TRAIN,
            conditions=CONGESTED,
            laned=BOUNDED,
        )
        return rows.congested(self._run(options)["systems"])

    def _lossy(self, label: str, laned: LanedOptions, most: float) -> list[Check]:
        clean = RunOptions(switch="soft", systems=DLCP, link=LINK, train=TRAIN, laned=laned)
        return rows.lossy(label, self._dlcp(clean), self._dlcp(replace(clean, conditions=LOSS)), most)

    def _degraded(self, mode: str) -> list[dict[str, Any]]:
        """Summary entries, one per seed. Missing packets count as zeros, and the loss bound allows for all of them."""
        entries = []
        for seed in TRIM_SEEDS:
            laned = LanedOptions(
                loss_bound=TRIM_SHARE + 0.1, divisor="workers", degrade=Degrade(mode, TRIM_SHARE, seed)
            )
            train = replace(TRIM_TRAIN, seed=seed)
            entries.append(
                self._dlcp(RunOptions(switch="soft", systems=DLCP, link=TRIM_LINK, train=train, laned=laned))
            )
        return entries

    def _dlcp(self, options: RunOptions) -> dict[str, Any]:
        entry: dict[str, Any] = self._run(options)["systems"]["dlcp"]
        return entry

    def _run(self, options: RunOptions) -> dict[str, Any]:
        summary, _ = run(options, self._results, self._say)
        return summary


def _mean(entries: list[dict[str, Any]]) -> dict[str, float]:
    return {name: sum(entry[name] for entry in entries) / len(entries) for name in ("nmse", "accuracy")}
