# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-dlcp`: runs every check of tags, bounded loss, spraying and trimming, and says what holds."""

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
from sumwire_lab.run.experiment import Say
from sumwire_lab.run.training_run import run
from sumwire_lab.verify.plan import Verification, without_bmv2
from sumwire_lab.verify.rows import dlcp as checks
from sumwire_lab.verify.rows import dlcp_bad_input as bad_input
from sumwire_lab.verify.rows.thc import Check

DLCP: Final = ("dlcp",)
# On links where a step's bytes, not the two cores of a machine, are what takes time.
LINK: Final = LinkOptions(20.0)
TRAIN: Final = TrainOptions()
LOSS: Final = Conditions(loss=0.01)
BOUNDED: Final = LanedOptions(loss_bound=0.03)
RELIABLE: Final = LanedOptions(loss_bound=0.0)
# Computing then takes as long as the network, so that one slow worker would hold all others up.
SLOW_LINK: Final = LinkOptions(100.0)
SLOW_TRAIN: Final = TrainOptions(batch=320, epochs=60)
STRAGGLER: Final = Conditions(gray=OfHost(2, 0.01), slow=OfHost(4, 3.0))
QUORUM: Final = LanedOptions(quorum=3, loss_bound=0.03)
CONGESTED: Final = Conditions(loss=0.01, background=0.5)
CONGESTED_SYSTEMS: Final = ("gloo", "thc", "dlcp")
# As many epochs as the target takes, with some to spare: gloo needs seconds a step there.
CONGESTED_TRAIN: Final = TrainOptions(epochs=4)
# Few steps, at whose end what the sums lack still shows in the accuracy.
TRIM_TRAIN: Final = TrainOptions(max_steps=30, nmse_samples=20)
TRIM_LINK: Final = LinkOptions(100.0)
TRIM_SHARE: Final = 0.2
TRIM_SEEDS: Final = (1, 2, 3)


def verify(results: Path, say: Say) -> list[Check]:
    """All checks; one that fails does not stop the others. Writes verify-dlcp.json. Raises KeyboardInterrupt."""
    rows = Verification(results / "verify-dlcp.json", say)
    runs = Runs(results, say)
    rows.add("bad input", bad_input.rows)
    rows.add("overload, soft switch", lambda: checks.overload(run_overload("soft", results, say)))
    rows.add("overload, bmv2", lambda: _overload_on_bmv2(results, say))
    rows.add("two tensors", lambda: checks.contention(run_contention(results, say)))
    rows.add("two spines", lambda: checks.spines(run_spines(results, say)))
    rows.add("a dead spine", lambda: checks.failover(run_failover(results, say)))
    rows.add("bounded loss", runs.bounded)
    rows.add("full reliability", runs.reliable)
    rows.add("a slow worker and a lossy link", runs.straggler)
    rows.add("trimming", runs.trimming)
    rows.add("congested", runs.congested)
    return rows.done


def _overload_on_bmv2(results: Path, say: Say) -> list[Check]:
    label = "overload, bmv2"
    absent = without_bmv2(label, "as on the soft switch")
    if absent:
        return absent
    return [replace(row, check=f"bmv2: {row.check}") for row in checks.overload(run_overload("bmv2", results, say))]


class Runs:
    """The training runs, each with both of its sides."""

    def __init__(self, results: Path, say: Say) -> None:
        self._results = results
        self._say = say

    def bounded(self) -> list[Check]:
        """1 % loss on every link, p = 3 %."""
        return self._lossy("1 % loss on every link, bounded (p = 3 %)", BOUNDED, checks.BOUNDED_MAX)

    def reliable(self) -> list[Check]:
        """1 % loss on every link, nothing missing."""
        return self._lossy("1 % loss on every link, full reliability", RELIABLE, checks.RELIABLE_MAX)

    def straggler(self) -> list[Check]:
        """A slow worker, and another one behind a lossy link, when the quorum is all but one."""
        healthy = RunOptions(switch="soft", systems=DLCP, link=SLOW_LINK, train=SLOW_TRAIN, laned=QUORUM)
        slowed = replace(healthy, conditions=STRAGGLER)
        return checks.straggler(self._dlcp(healthy), self._dlcp(slowed))

    def trimming(self) -> list[Check]:
        """The same packets cut, and dropped."""
        cut, dropped = self._degraded("trim"), self._degraded("drop")
        return [*checks.trimming(_mean(cut), _mean(dropped)), *(checks.replicas("cut", one) for one in cut)]

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
        return checks.congested(self._run(options)["systems"])

    def _lossy(self, label: str, laned: LanedOptions, most: float) -> list[Check]:
        clean = RunOptions(switch="soft", systems=DLCP, link=LINK, train=TRAIN, laned=laned)
        return checks.lossy(label, self._dlcp(clean), self._dlcp(replace(clean, conditions=LOSS)), most)

    def _degraded(self, mode: str) -> list[dict[str, Any]]:
        """One entry a seed. Missing packets are taken as zeros, and the bound is wide enough for all of them."""
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
