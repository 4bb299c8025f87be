# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of `make verify-papers` on DLCP: experiments, and the checks computed from their measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any, Final

from sumwire_lab.experiments import ring_loss, tcp_server
from sumwire_lab.experiments.early_forward import EarlyForwardOutcome, run_early_forward
from sumwire_lab.experiments.ring_loss import BOUNDED, GLOO, RELIABLE, RingLoss, RingOutcome
from sumwire_lab.experiments.tcp_server import TcpServer, run_tcp_server
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.study.check import Check, at_least, at_most, equal, reported
from sumwire_lab.study.figures import grouped
from sumwire_lab.verify.dlcp import FIRST_SHARE_MIN, replicas_check
from sumwire_lab.verify.plan import Experiment, Experiments, Verification, needs_bmv2, recorded, simulated

SERVER_MIN: Final = 1.5
MECHANISM_MIN: Final = 1.05
LOSS_MIN: Final = 1.0
# A bound that brings nothing must not cost anything either.
GRID_MIN: Final = 0.98
INCAST_MEAN_MIN: Final = 1.15
INCAST_P99_MIN: Final = 1.3
EARLY_MIN: Final = 1.15
# What the simulator writes before violations that concern sums.
WRONG_SUM: Final = "wrong sum: "

# What is left out of DLCP, one mechanism at a time.
WITHOUT: Final[Mapping[str, Mapping[str, Any]]] = {
    "drops": {"drops": False},
    "bound": {"loss_bound": 0.0},
    "priorities": {"priorities": False},
}
# The papers' other transports, as DLCP with other options. (Priority queues without drops are DLCP without its drops.)
BASELINES: Final[Mapping[str, Mapping[str, Any]]] = {
    "trimming without priorities": {"trims": True, "priorities": False},
}
assert all(hasattr(LanedOptions(), name) for given in (*WITHOUT.values(), *BASELINES.values()) for name in given)


def gradient_drops(label: str, entry: Mapping[str, Any]) -> list[Check]:
    """Return which gradient packets the queue before a server drops."""
    classes: Mapping[str, int] = entry["drops"]["queue_classes"]
    dropped = {drop_class: classes.get(f"{drop_class} drop", 0) for drop_class in range(4)}
    total = sum(dropped.values())
    return [
        at_least(
            f"{label}: share of dropped gradient packets in the class to lose first",
            dropped[3] / total if total else None,
            FIRST_SHARE_MIN,
        ),
        equal(f"{label}: protected gradient packets dropped", dropped[0], 0),
        reported(f"{label}: gradient packets dropped, by class", {str(one): count for one, count in dropped.items()}),
        replicas_check(label, entry),
    ]


def trimmed(entry: Mapping[str, Any]) -> int:
    """Return the contributions that the queue before a server has cut."""
    classes: Mapping[str, int] = entry["drops"]["queue_classes"]
    return sum(packets for key, packets in classes.items() if key.endswith(" trim"))


def transport_checks(dlcp: Sequence[float], others: Mapping[str, Sequence[float]], cut: Sequence[int]) -> list[Check]:
    """Check the seconds of communication per step behind a server, of DLCP and of other transports, one number for each
    seed.

    `cut`: packets that were cut in each run with trimming. A run without any shows nothing about trimming.
    """
    label = "server behind a P4 switch, background 1.3 x its link: communication per step"
    return [
        *(reported(f"{label}, {name} / DLCP", fmean(one) / fmean(dlcp)) for name, one in others.items()),
        reported("... packets cut in the runs with trimming", list(cut)),
    ]


def server_checks(thc: Sequence[float], dlcp: Sequence[float], without: Mapping[str, Sequence[float]]) -> list[Check]:
    """Check the seconds per step behind a server, one number for each seed: with reliable and untagged packets, with
    DLCP, and with DLCP without one of its mechanisms."""
    label = "server behind a P4 switch, background 1.3 x its link: time per step"
    gains = {name: fmean(one) / fmean(dlcp) for name, one in without.items()}
    gaining = sorted(name for name, gain in gains.items() if gain >= MECHANISM_MIN)
    return [
        at_least(f"{label}, reliable and untagged / DLCP", fmean(thc) / fmean(dlcp), SERVER_MIN),
        *(reported(f"{label}, DLCP without its {name} / DLCP", gain) for name, gain in gains.items()),
        # The pages say which bring nothing.
        reported(f"{label}: mechanisms that bring 5 % or more", ", ".join(gaining) or "none"),
    ]


def bounded_checks(
    label: str,
    reliable: Sequence[Mapping[str, Any]],
    bounded_: Sequence[Mapping[str, Any]],
    lossless: Sequence[Mapping[str, Any]],
    least: tuple[float, float],
) -> list[Check]:
    """Check the communication per step without a loss bound over that with one, the median over the seeds; an entry
    for each seed and side. `lossless`: without a bound, and without loss. `least`: the targets of mean and 99th
    percentile."""

    def ratio(key: str, other: Sequence[Mapping[str, Any]] = bounded_) -> float | None:
        pairs = [(float(one[key]), float(two[key])) for one, two in zip(reliable, other, strict=True)]
        # The median: a machine that stands still in one run must not decide.
        return median(one / two for one, two in pairs) if all(two for _, two in pairs) else None

    mean, tail = "comm_s_per_step", "comm_s_per_step_p99"
    return [
        at_least(f"{label}: communication per step, reliable / bounded", ratio(mean), least[0]),
        at_least(f"{label}: 99th percentile of it, reliable / bounded", ratio(tail), least[1]),
        # What loss costs a reliable run: as much as a bound could bring, if it cost nothing itself.
        reported(f"{label}: communication per step, reliable / nothing lost", ratio(mean, lossless)),
        reported(f"{label}: 99th percentile of it, reliable / nothing lost", ratio(tail, lossless)),
        reported(f"{label}: retransmissions, reliable / bounded", ratio("retransmissions"), measured=True),
        *(replicas_check(label, one) for one in bounded_),
    ]


def conserved_checks(record: Mapping[str, Any], wanted: int) -> list[Check]:
    """Check that nothing is lost. `record`: what `simulate --json` writes."""
    label = "simulated jobs in stars and trees, with loss, bounds, recovery"
    violations = [one["text"] for one in record["violations"]]
    of_sums = [text for text in violations if WRONG_SUM in text]
    return [
        at_least(label, record["seeds"], wanted),
        equal(f"{label}: whose means and residuals do not add up to what was given", len(of_sums), 0),
        # verify-trust has a target for these: runs that do not end as they should, with no sum wrong.
        reported(f"{label}: with another violation", len(violations) - len(of_sums)),
    ]


def grid_checks(cells: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Check a grid of simulations. `cells`: written by `simulate.bound --json`; numbers are for p = 0 and for p = 5 %,
    in this order."""

    def gain(cell: Mapping[str, Any], of: str = "mean_s") -> float:
        return float(cell[of][0] / cell[of][1])

    def named(cell: Mapping[str, Any]) -> str:
        return f"{1000 * cell['round_trip_s']:g} ms, {cell['loss']:.1%} lost, {cell['chunks']} chunks"

    label = "simulated jobs over 1 to 40 ms round trip, p = 0 / p = 5 %"
    least = min(cells, key=gain)
    chunks = ", ".join(str(of) for (of,) in grouped(cells, ["chunks"]))
    return [
        at_least(f"{label}: mean time of a step, the least ({named(least)})", gain(least), GRID_MIN),
        *(
            reported(
                f"{label}: {of}, {1000 * round_trip:g} ms, {chunks} chunks, by loss",
                {f"{loss:.1%}": [gain(cell, key) for cell in row] for (loss,), row in grouped(rows, ["loss"]).items()},
            )
            for (round_trip,), rows in grouped(cells, ["round_trip_s"]).items()
            for of, key in (("mean", "mean_s"), ("99th percentile", "p99_s"))
        ),
    ]


def early_forward_checks(outcome: EarlyForwardOutcome) -> list[Check]:
    """Check the ratio of the step time without early forward to that with it."""
    label = "early forward, communication about equal to computation"
    return [
        at_least(f"{label}: step time without / with", outcome.gain, EARLY_MIN),
        reported(f"{label}: communication alone / computation alone", outcome.balance),
        equal(f"{label}: parameters with and without, on all workers", outcome.equal, True, "bit-equal"),
    ]


def ring_checks(options: RingLoss, outcome: RingOutcome) -> list[Check]:
    """Check means around a ring on links that lose packets: the missing share, and the time against ways without a
    bound."""
    label = f"ring of {options.ranks}, {options.loss:.0%} loss, p = {options.bound:.0%}"
    mean = {way: fmean(seconds) for way, seconds in outcome.seconds.items()}
    return [
        equal(f"{label}: bits of the mean, on all ranks", outcome.equal, True, "equal"),
        equal(f"{label}: p = 0 against the true mean, largest difference", outcome.off, 0.0),
        at_most(f"{label}: largest missing share of a tensor", outcome.missing, options.bound),
        reported(f"{label}: time of a mean, p = 0 / p", mean[RELIABLE] / mean[BOUNDED]),
        reported(f"{label}: time of a mean, gloo / p", mean[GLOO] / mean[BOUNDED]),
        reported(f"{label}: packets sent again", dict(outcome.again)),
    ]


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
# Of each seed, in each cell of the grid; and the loss from which on cells have a row.
GRID_STEPS: Final = 40
QUICK_GRID_STEPS: Final = 2
# Of the server's incast, and of random loss.
SERVER_BOUND: Final = 0.05
LOSS_BOUND: Final = 0.03


def _conserved(v: Verification) -> list[Check]:
    """Simulated jobs, many in trees and with a bound, under loss: nothing that workers gave is lost or counts twice."""
    count = QUICK_SCHEDULES if v.quick else SCHEDULES
    return conserved_checks(simulated(v.results, count), count)


def _grid(v: Verification) -> list[Check]:
    """Whole jobs in virtual time, which lose the same packets with a bound and without, over a grid of paths."""
    steps = str(QUICK_GRID_STEPS if v.quick else GRID_STEPS)
    words = ["simulate.bound", "--steps", steps, "--seeds", str(len(v.options.seeds))]
    return grid_checks(recorded(words, v.results / "bound.json"))


def _ring(v: Verification) -> list[Check]:
    options = RingLoss(turns=QUICK_TURNS if v.quick else RingLoss.turns)
    return ring_checks(options, ring_loss.measured(options))


def _behind(seed: int) -> RunOptions:
    """A server behind the switch, with more background traffic than its link carries."""
    return RunOptions(
        switch="soft",
        server=True,
        systems=("dlcp",),
        link=LINK,
        train=TrainOptions(max_steps=STEPS, seed=seed),
        conditions=OVERLOAD,
        laned=LanedOptions(loss_bound=SERVER_BOUND),
    )


def _drops(switch: str) -> Experiment:
    """Which packets a P4 switch drops before its queue to a server."""
    label = f"server behind a P4 switch ({switch}), background 1.3 x its link"

    def measure(v: Verification) -> list[Check]:
        return gradient_drops(label, v.entry(replace(_behind(v.options.seeds[0]), switch=switch)))

    return needs_bmv2(label, "as on the soft switch")(measure) if switch == "bmv2" else measure


def _server(v: Verification) -> list[Check]:
    """DLCP against reliable and untagged packets, and without each of its mechanisms, in turn, seed by seed."""
    thc, dlcp = [], []
    without: dict[str, list[float]] = {name: [] for name in WITHOUT}
    for behind in map(_behind, v.options.seeds):
        thc.append(v.entry(replace(behind, systems=("thc",), laned=LanedOptions()))["step_s"])
        dlcp.append(v.entry(behind)["step_s"])
        for name, given in WITHOUT.items():
            without[name].append(v.entry(replace(behind, laned=replace(behind.laned, **given)))["step_s"])
    return server_checks(thc, dlcp, without)


def _transports(v: Verification) -> list[Check]:
    """DLCP against the transports that the papers compare it with, in turn, seed by seed."""
    dlcp: list[float] = []
    others: dict[str, list[float]] = {}
    cut: list[int] = []
    controls = tcp_server.known_controls()
    for behind in map(_behind, v.options.seeds):
        entry = v.entry(behind)
        dlcp.append(entry["comm_s_per_step"])
        for name, given in BASELINES.items():
            other = v.entry(replace(behind, laned=replace(behind.laned, **given)))
            others.setdefault(name, []).append(other["comm_s_per_step"])
            cut.append(trimmed(other))
        for control in controls:
            for tag in (None, tcp_server.FRONT):
                job = TcpServer(entry["parameters"], STEPS, control, tag)
                others.setdefault(job.name, []).append(fmean(run_tcp_server(job, behind, v.results, v.say)))
    return transport_checks(dlcp, others, cut)


def _loss(v: Verification) -> list[Check]:
    """1 % loss on every link of a star, with and without a bound, and without any loss."""
    base = RunOptions(switch="soft", systems=("dlcp",), link=LINK, conditions=LOSS)
    sides = _sides(v, base, LOSS_BOUND, LOSS_STEPS, {"conditions": Conditions()})
    return bounded_checks("1 % loss on every link, p = 0 / p = 3 %", *sides, (LOSS_MIN, LOSS_MIN))


def _incast(v: Verification) -> list[Check]:
    """Incast into a server's port with background traffic, with and without a bound, and with nothing dropped."""
    label = "incast into a server's port, background 1.3 x, p = 0 / p = 5 %"
    base = _behind(v.options.seeds[0])
    sides = _sides(v, base, SERVER_BOUND, STEPS, {"laned": replace(base.laned, loss_bound=0.0, drops=False)})
    return bounded_checks(label, *sides, (INCAST_MEAN_MIN, INCAST_P99_MIN))


def _sides(
    v: Verification, base: RunOptions, bound: float, steps: int, lossless: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Entries of reliable and of bounded runs, and of reliable ones in which nothing is lost, one for each seed.
    `lossless`: what is otherwise then."""
    reliable = replace(base, laned=replace(base.laned, loss_bound=0.0))
    bounded = replace(base, laned=replace(base.laned, loss_bound=bound))
    found: tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]] = ([], [], [])
    for seed in v.options.seeds:
        train = TrainOptions(max_steps=steps, seed=seed)
        for entries, side in zip(found, (reliable, bounded, replace(reliable, **lossless)), strict=True):
            entries.append(v.entry(replace(side, train=train)))
    return found


EXPERIMENTS: Final[Experiments] = {
    "server": _server,
    "transports": _transports,
    "server-soft": _drops("soft"),
    "server-bmv2": _drops("bmv2"),
    "loss": _loss,
    "incast": _incast,
    "conserved": _conserved,
    "bound": _grid,
    "ring": _ring,
    "early-forward": lambda v: early_forward_checks(run_early_forward(v.results, v.say, turns=1 if v.quick else 3)),
}
