# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-papers` on DLCP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from sumwire_lab.errors import LabError
from sumwire_lab.experiments import ring_loss, tcp_server
from sumwire_lab.experiments.early_forward import run_early_forward
from sumwire_lab.experiments.ring_loss import RingLoss
from sumwire_lab.experiments.tcp_server import TcpServer, run_tcp_server
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.papers_options import PapersOptions
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import run_module, without_bmv2
from sumwire_lab.verify.rows import papers_dlcp as rows

# A rate at which the links, not the two cores of a small machine, limit a step.
LINK: Final = LinkOptions(20.0)
STEPS: Final = 12
LOSS_STEPS: Final = 25
OVERLOAD: Final = Conditions(background=1.3)
LOSS: Final = Conditions(loss=0.01)
# Simulated jobs have about four chunks of gradients each.
SCHEDULES: Final = 3000
QUICK_SCHEDULES: Final = 100
QUICK_TURNS: Final = 4
# Of the server's incast, and of random loss.
SERVER_BOUND: Final = 0.05
LOSS_BOUND: Final = 0.03


def experiments(results: Path, say: Say, options: PapersOptions) -> Mapping[str, Experiment]:
    """By row."""
    runs = Runs(results, say, options)
    return {
        "server": runs.server,
        "transports": runs.transports,
        "server-soft": lambda: runs.drops("soft"),
        "server-bmv2": lambda: runs.drops("bmv2"),
        "loss": runs.loss,
        "incast": runs.incast,
        "conserved": lambda: _conserved(results, QUICK_SCHEDULES if options.quick else SCHEDULES),
        "ring": lambda: _ring(RingLoss(turns=QUICK_TURNS if options.quick else RingLoss.turns)),
        "early-forward": lambda: rows.early_forward(run_early_forward(results, say, turns=1 if options.quick else 3)),
    }


def _ring(options: RingLoss) -> list[Check]:
    return rows.ring(options, ring_loss.measured(options))


def _conserved(results: Path, count: int) -> list[Check]:
    """Simulated jobs, many in trees and with a bound, under loss: nothing that workers gave is lost or counts twice."""
    file = results / "simulate.json"
    file.unlink(missing_ok=True)
    ended = run_module(["simulate", "--seeds", str(count), "--keep-going", "--quiet", "--json", str(file)])
    if not file.exists():
        raise LabError(f"the simulator ended with {ended.status}: {ended.last_line}")
    return rows.conserved(json.loads(file.read_text()), count)


class Runs:
    """The training runs. Sides that are compared are run in turn, seed by seed."""

    def __init__(self, results: Path, say: Say, options: PapersOptions) -> None:
        self._results = results
        self._say = say
        self._seeds = options.seeds

    def drops(self, switch: str) -> list[Check]:
        """Which packets a P4 switch drops before its queue to a server."""
        label = f"server behind a P4 switch ({switch}), background 1.3 x its link"
        absent = without_bmv2(label, "as on the soft switch") if switch == "bmv2" else []
        if absent:
            return absent
        behind = replace(self._behind(self._seeds[0]), switch=switch)
        return rows.gradient_drops(label, self._entry(behind))

    def server(self) -> list[Check]:
        """DLCP against reliable and untagged packets, and without each of its mechanisms."""
        thc, dlcp = [], []
        without: dict[str, list[float]] = {name: [] for name in rows.WITHOUT}
        for seed in self._seeds:
            behind = self._behind(seed)
            thc.append(self._entry(replace(behind, systems=("thc",), laned=LanedOptions()))["step_s"])
            dlcp.append(self._entry(behind)["step_s"])
            for name, given in rows.WITHOUT.items():
                without[name].append(self._entry(replace(behind, laned=replace(behind.laned, **given)))["step_s"])
        return rows.server(thc, dlcp, without)

    def transports(self) -> list[Check]:
        """DLCP against the transports that the papers compare it with."""
        dlcp: list[float] = []
        others: dict[str, list[float]] = {}
        cut: list[int] = []
        controls = tcp_server.known_controls()
        for seed in self._seeds:
            behind = self._behind(seed)
            entry = self._entry(behind)
            dlcp.append(entry["comm_s_per_step"])
            for name, given in rows.BASELINES.items():
                other = self._entry(replace(behind, laned=replace(behind.laned, **given)))
                others.setdefault(name, []).append(other["comm_s_per_step"])
                cut.append(rows.trimmed(other))
            for control in controls:
                seconds = run_tcp_server(
                    TcpServer(entry["parameters"], STEPS, control), behind, self._results, self._say
                )
                others.setdefault(f"TCP ({control})", []).append(fmean(seconds))
        return rows.transports(dlcp, others, cut)

    def loss(self) -> list[Check]:
        """1 % loss on every link of a star, with and without a bound, and without any loss."""
        base = RunOptions(switch="soft", systems=("dlcp",), link=LINK, conditions=LOSS)
        label = "1 % loss on every link, p = 0 / p = 3 %"
        sides = self._sides(base, LOSS_BOUND, LOSS_STEPS, {"conditions": Conditions()})
        return rows.bounded(label, *sides, (rows.LOSS_MIN, rows.LOSS_MIN))

    def incast(self) -> list[Check]:
        """Incast into a server's port with background traffic, with and without a bound, and with nothing dropped."""
        label = "incast into a server's port, background 1.3 x, p = 0 / p = 5 %"
        base = self._behind(self._seeds[0])
        sides = self._sides(base, SERVER_BOUND, STEPS, {"laned": replace(base.laned, loss_bound=0.0, drops=False)})
        return rows.bounded(label, *sides, (rows.INCAST_MEAN_MIN, rows.INCAST_P99_MIN))

    def _behind(self, seed: int) -> RunOptions:
        return RunOptions(
            switch="soft",
            server=True,
            systems=("dlcp",),
            link=LINK,
            train=TrainOptions(max_steps=STEPS, seed=seed),
            conditions=OVERLOAD,
            laned=LanedOptions(loss_bound=SERVER_BOUND),
        )

    def _sides(
        self, base: RunOptions, bound: float, steps: int, lossless: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
        """Entries of reliable and of bounded runs, and of reliable ones in which nothing is lost, one for each seed.
        `lossless`: what is otherwise then."""
        reliable = replace(base, laned=replace(base.laned, loss_bound=0.0))
        bounded = replace(base, laned=replace(base.laned, loss_bound=bound))
        found: tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]] = ([], [], [])
        for seed in self._seeds:
            train = TrainOptions(max_steps=steps, seed=seed)
            for entries, side in zip(found, (reliable, bounded, replace(reliable, **lossless)), strict=True):
                entries.append(self._entry(replace(side, train=train)))
        return found

    def _entry(self, options: RunOptions) -> dict[str, Any]:
        summary, _ = run(options, self._results, self._say)
        entry: dict[str, Any] = summary["systems"][options.systems[0]]
        return entry
