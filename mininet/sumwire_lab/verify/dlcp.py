# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-dlcp`: the experiments and checks for every number promised for tagged packets, bounded loss, spraying
and trimming."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import sumwire_controller
import yaml
from sumwire.dlcp.tags import LayerMagnitude, check_priorities
from sumwire.transport.options import Delivery

from sumwire_lab.experiments import signs_alone
from sumwire_lab.experiments.contention import run_contention
from sumwire_lab.experiments.overload import LOAD, Overload, run_overload
from sumwire_lab.experiments.spines import HASH, ONE, SLOT, Failover, Spread, run_failover, run_spines
from sumwire_lab.network import control_plane
from sumwire_lab.network import fabric as fabrics
from sumwire_lab.options.conditions import Conditions, OfHost
from sumwire_lab.options.priority_lanes import DegradeOptions, LanedOptions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.study.check import Check, at_least, at_most, equal, holds, must_fail, reported
from sumwire_lab.system.congestion_control import available
from sumwire_lab.verify.plan import ACCURACY_GAP_MAX, ROUNDING, Experiments, Verification, needs_bmv2, target_check

FIRST_SHARE_MIN: Final = 0.95
CONTENTION_MIN: Final = 1.5
SPINES_MIN: Final = 1.8
SPREAD_TOLERANCE: Final = 0.03
STALL_MAX_S: Final = 1.0
BOUNDED_MAX: Final = 1.1
RELIABLE_MAX: Final = 1.5
STRAGGLER_MAX: Final = 1.3
GLOO_MIN: Final = 8.0
THC_MIN: Final = 1.3
# MLT's and DLCP's largest gain over their own baselines: 84.3 % faster training (DLCP, abstract).
PAPER_BEST: Final = 1.84


def overload_checks(outcome: Overload) -> list[Check]:
    """Check an offered load above the link's rate: the switch drops the class that is to be lost first, and nothing
    else is lost."""
    label = f"offered load {LOAD:g} x a link"
    large = outcome.dropped[0]
    return [
        at_least(f"{label}: share of drops in the class to lose first", outcome.share_of_first, FIRST_SHARE_MIN),
        holds(f"{label}: large-magnitude packets lost", large, "0, of some sent", large == 0 and outcome.sent[0] > 0),
        equal(
            f"{label}: packets lost elsewhere than in the virtual queue",
            sum(outcome.sent) - sum(outcome.dropped) - sum(outcome.received),
            0,
        ),
    ]


def contention_checks(seconds: Mapping[str, float]) -> list[Check]:
    """Check how much sooner the front layer's tensor completes with priorities than in lanes without them, or in one
    lane."""
    label = "two tensors contending, completion of the front layer's"
    return [
        at_least(f"{label}: lanes alike / with priorities", seconds["alike"] / seconds["priorities"], CONTENTION_MIN),
        at_least(f"{label}: one sequence / with priorities", seconds["one"] / seconds["priorities"], CONTENTION_MIN),
    ]


def spines_checks(done: Mapping[str, Spread]) -> list[Check]:
    """Check the throughput of two spines over that of one, and how evenly the packets are spread."""
    rows = []
    for way in (SLOT, HASH):
        ratio = done[way].values_per_s / done[ONE].values_per_s
        share = done[way].shares[0]
        rows += [
            at_least(f"two spines / one, sprayed by {way}: throughput", ratio, SPINES_MIN),
            holds(
                f"two spines, sprayed by {way}: share of the first",
                share,
                f"50 +- {SPREAD_TOLERANCE:.0%}",
                abs(share - 0.5) <= SPREAD_TOLERANCE + ROUNDING,
            ),
        ]
    return rows


def failover_checks(outcome: Failover) -> list[Check]:
    """Check a failover, in which a spine switch is killed: how long until it is out of use, how long workers stall, and
    whether results agree."""
    return [
        at_most("a dead spine is left out: seconds", outcome.left_out_s, STALL_MAX_S),
        at_most("a dead spine: longest operation less the usual one, seconds", outcome.stall_s, STALL_MAX_S),
        equal("a dead spine: results of all workers", outcome.equal, True, "bit-equal"),
    ]


def replicas_check(label: str, entry: Mapping[str, Any]) -> Check:
    """Check that all workers end with bit-equal parameters, and none fell back."""
    same, fallbacks = bool(entry["replicas_equal"]), entry.get("fallbacks", 0)
    return holds(f"{label}: replicas", same, "bit-equal on all workers, no fall-back", same and not fallbacks)


def lossy_checks(
    label: str, clean: Mapping[str, Any], loss: Mapping[str, Any], most: float, known_bad: float
) -> list[Check]:
    """Compare a training without loss and one with it: tail of the communication time per step, and accuracy.
    ``known_bad``: the accuracy of `signs_alone`."""
    value = loss["comm_s_per_step_p99"] / clean["comm_s_per_step_p99"]

    def close(accuracy: float) -> Check:
        found = [accuracy, clean["accuracy"]]
        near = abs(accuracy - clean["accuracy"]) <= ACCURACY_GAP_MAX + ROUNDING
        return holds(f"{label}: test accuracy, with loss and without", found, "within 0.5 points", near)

    return [
        at_most(f"{label}: p99 of communication per step, with loss / without", value, most),
        close(loss["accuracy"]),
        must_fail(signs_alone.NAME, close(known_bad)),
        replicas_check(f"{label}, with loss", loss),
        replicas_check(f"{label}, without", clean),
    ]


def straggler_checks(healthy: Mapping[str, Any], slowed: Mapping[str, Any]) -> list[Check]:
    """Check a straggler and a lossy link, with quorum n - 1: time per step against the healthy run."""
    label = "one worker's link at 1 % loss, one worker slowed 3 x, quorum n - 1"
    ratio = slowed["step_s"] / healthy["step_s"]
    return [at_most(f"{label}: step time / the healthy run's", ratio, STRAGGLER_MAX), replicas_check(label, slowed)]


def trimming_checks(cut: Mapping[str, float], dropped: Mapping[str, float], known_bad: float) -> list[Check]:
    """Check NMSE and accuracy when some packets are trimmed to half their planes, against dropping the same packets and
    counting them as zeros. Keys of both: ``nmse``, ``accuracy``. ``known_bad``: the accuracy of `signs_alone`."""
    label = "20 % of packets cut to half their planes against dropped"

    def more(accuracy: float) -> Check:
        found = [accuracy, dropped["accuracy"]]
        return holds(f"{label}: test accuracy", found, "more", accuracy > dropped["accuracy"])

    return [
        holds(f"{label}: NMSE", [cut["nmse"], dropped["nmse"]], "less", cut["nmse"] < dropped["nmse"]),
        more(cut["accuracy"]),
        must_fail(signs_alone.NAME, more(known_bad)),
    ]


def congested_checks(entries: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """Check background TCP and loss: time to accuracy of gloo and of THC over that of DLCP."""
    label = "background TCP at half of every link, 1 % loss: time to accuracy"
    times = {name: entry["time_to_target_s"] for name, entry in entries.items()}
    dlcp = times["dlcp"]
    over = {name: None if not dlcp or not one else one / dlcp for name, one in times.items()}
    thc = over["thc"]
    return [
        at_least(f"{label}, gloo / THC with DLCP", over["gloo"], GLOO_MIN),
        at_least(f"{label}, THC without / with DLCP", thc, THC_MIN),
        reported(
            f"{label}, share of the paper's best case over its own baselines ({PAPER_BEST})",
            None if thc is None else thc / PAPER_BEST,
        ),
        *(replicas_check(f"{label}, {name}", entry) for name, entry in entries.items()),
    ]


_ORDERLY: Final[dict[str, Any]] = {
    "port": 1,
    "rate_mbit": 20.0,
    "mark_bytes": 20_000,
    "drop_bytes": [10_000, 40_000, 60_000, 80_000],
    "drop_all_bytes": 120_000,
}


def load_queue(queue: dict[str, Any]) -> None:
    """Let the controller read a configuration with this virtual queue."""
    fabric = fabrics.plan(2, LinkOptions(), "x")
    nobody = {switch.name: control_plane.NO_SWITCH for switch in fabric.switches}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / control_plane.CONFIGURATION
        path.write_text(
            yaml.safe_dump(control_plane.configuration(fabric, nobody, control_plane.training_job(fabric), [queue]))
        )
        sumwire_controller.load_config(path)


def refused(label: str, give: Callable[[], object], reason: str) -> Check:
    """Call `give`. The check holds if that raises an error whose text contains the reason."""
    try:
        give()
    except (ValueError, sumwire_controller.ConfigError) as error:
        return holds(
            f"bad input: {label}", str(error).strip().splitlines()[-1], "refused with the reason", reason in str(error)
        )
    return holds(f"bad input: {label}", "taken", "refused with the reason", False)


def bad_input_checks() -> list[Check]:
    """Return one check for each bad setting. Good settings are tried first; an error there ends the experiment."""
    load_queue(_ORDERLY)
    LayerMagnitude.for_lanes(4)
    Delivery(loss_bound=0.0)
    disorder = [10_000, 60_000, 40_000, 80_000]
    return [
        refused("p = 1", lambda: Delivery(loss_bound=1.0), "loss_bound = 1.0"),
        refused("p = -0.01", lambda: Delivery(loss_bound=-0.01), "loss_bound = -0.01"),
        refused("a priority map with a hole", lambda: check_priorities({0: 7, 1: 5, 3: 1}, 4), "lane 2"),
        refused("thresholds out of order", lambda: load_queue(_ORDERLY | {"drop_bytes": disorder}), "drop_bytes"),
    ]


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


@needs_bmv2("overload, bmv2", "as on the soft switch")
def _overload_on_bmv2(v: Verification) -> list[Check]:
    found = overload_checks(run_overload("bmv2", v.results, v.say))
    return [replace(check, check=f"bmv2: {check.check}") for check in found]


def _lossy(label: str, laned: LanedOptions, most: float, v: Verification) -> list[Check]:
    clean = RunOptions(switch="soft", systems=DLCP, link=LINK, train=TRAIN, laned=laned)
    return lossy_checks(
        label, v.entry(clean), v.entry(replace(clean, conditions=LOSS)), most, signs_alone.accuracy(TRAIN)
    )


def _straggler(v: Verification) -> list[Check]:
    """One worker is slow and the link of another one is lossy; the quorum is one below the number of workers."""
    healthy = RunOptions(switch="soft", systems=DLCP, link=SLOW_LINK, train=SLOW_TRAIN, laned=QUORUM)
    return straggler_checks(v.entry(healthy), v.entry(replace(healthy, conditions=STRAGGLER)))


def _trimming(v: Verification) -> list[Check]:
    """One run trims some packets, another one drops them."""
    cut, dropped = _degraded("trim", v), _degraded("drop", v)
    known_bad = fmean(signs_alone.accuracy(replace(TRIM_TRAIN, seed=seed)) for seed in TRIM_SEEDS)
    return [*trimming_checks(_mean(cut), _mean(dropped), known_bad), *(replicas_check("cut", one) for one in cut)]


def _degraded(mode: str, v: Verification) -> list[dict[str, Any]]:
    """Summary entries, one per seed. Missing packets count as zeros, and the loss bound allows for all of them."""
    entries = []
    for seed in TRIM_SEEDS:
        laned = LanedOptions(
            loss_bound=TRIM_SHARE + 0.1, divisor="workers", degrade=DegradeOptions(mode, TRIM_SHARE, seed)
        )
        train = replace(TRIM_TRAIN, seed=seed)
        entries.append(v.entry(RunOptions(switch="soft", systems=DLCP, link=TRIM_LINK, train=train, laned=laned)))
    return entries


def _mean(entries: list[dict[str, Any]]) -> dict[str, float]:
    return {name: sum(entry[name] for entry in entries) / len(entries) for name in ("nmse", "accuracy")}


def _congested(v: Verification) -> list[Check]:
    """Background TCP at half of every link, 1 % loss."""
    options = RunOptions(
        switch="soft",
        systems=CONGESTED_SYSTEMS,
        # Of the kernel's, that with which gloo bears losses best.
        link=replace(LINK, control=available(("bbr", "cubic"))[0]),
        train=CONGESTED_TRAIN,
        conditions=CONGESTED,
        laned=BOUNDED,
    )
    return [*congested_checks(v.summary(options)["systems"]), target_check("background TCP", CONGESTED_TRAIN)]


EXPERIMENTS: Final[Experiments] = {
    "bad input": lambda _: bad_input_checks(),
    "overload, soft switch": lambda v: overload_checks(run_overload("soft", v.results, v.say)),
    "overload, bmv2": _overload_on_bmv2,
    "two tensors": lambda v: contention_checks(run_contention(v.results, v.say)),
    "two spines": lambda v: spines_checks(run_spines(v.results, v.say)),
    "a dead spine": lambda v: failover_checks(run_failover(v.results, v.say)),
    "bounded loss": partial(_lossy, "1 % loss on every link, bounded (p = 3 %)", BOUNDED, BOUNDED_MAX),
    "full reliability": partial(_lossy, "1 % loss on every link, full reliability", RELIABLE, RELIABLE_MAX),
    "a slow worker and a lossy link": _straggler,
    "trimming": _trimming,
    "congested": _congested,
}
