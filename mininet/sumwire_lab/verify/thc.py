# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-thc`: the experiments and checks for every number promised for THC."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sumwire.codec.oracles import oracle_rows

from sumwire_lab.bench import switch
from sumwire_lab.experiments import signs_alone
from sumwire_lab.network import switches
from sumwire_lab.options.bench_options import SwitchBenchOptions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.study.check import Check, equal, holds
from sumwire_lab.verify import plan
from sumwire_lab.verify.plan import Experiments, Verification, accuracy_checks, codec_record, needs_bmv2, packet_tests

ORACLE_TOLERANCE: Final = 0.03
SWITCH_RATIO_MIN: Final = 1.0


def impaired_checks(thc: dict[str, Any], gloo: dict[str, Any], impair: str, known_bad: float) -> list[Check]:
    """Check a run through a switch that loses, doubles and reorders packets. ``known_bad``: see
    `plan.accuracy_checks`."""
    label = f"impaired ({impair})"
    return [
        *accuracy_checks(label, thc, gloo, known_bad),
        equal(f"{label}: fall-backs", thc["fallbacks"], 0),
        equal(f"{label}: replicas bit-equal", thc["replicas_equal"], True),
        holds(
            f"{label}: retransmissions", thc["retransmissions"], "> 0: losses did happen", thc["retransmissions"] > 0
        ),
    ]


def malformed_checks(thc: dict[str, Any], clean: dict[str, Any], packets: int) -> list[Check]:
    """Check a run beside malformed packets: same parameters as without them, and each packet counted under its
    reason."""
    flood = thc["malformed"]
    sent, counted = flood["sent"], {name: n for name, n in flood["counted"].items() if n}
    total = sum(sent.values())
    return [
        holds(
            f"{packets} malformed packets: sent",
            total,
            f"{packets}, all during the training",
            total == packets and bool(flood["all_sent_during_training"]),
        ),
        equal(f"{packets} malformed packets: counted by reason", counted, sent, f"as sent: {sent}"),
        holds(
            f"{packets} malformed packets: parameters after the training",
            thc["fingerprints"][0][:16],
            f"bit-equal to the run without: {clean['fingerprints'][0][:16]}, no fall-back",
            thc["fingerprints"] == clean["fingerprints"] and thc["fallbacks"] == 0,
        ),
    ]


def oracle_checks(rows: Sequence[tuple[str, float, float]]) -> list[Check]:
    """Check measured against derived values."""
    return [
        holds(f"oracle: {name}", value, f"{wanted:.6g} within 3 %", abs(value - wanted) <= ORACLE_TOLERANCE * wanted)
        for name, value, wanted in rows
    ]


PLAIN: Final = RunOptions(switch="soft")
IMPAIR: Final = "drop=0.01,dup=0.01,reorder=0.02,seed=7"
MALFORMED: Final = 100_000
# A rate at which the training lasts longer than the malformed packets. Its result does not depend on the rate.
FLOODED: Final = LinkOptions(40.0)
# bmv2 is slow: low link rates and a smaller model.
BMV2_LINK: Final = LinkOptions(10.0)
BMV2_TRAIN: Final = TrainOptions(hidden=512, batch=64, epochs=12)


def _accuracies(label: str, systems: dict[str, Any], train: TrainOptions = PLAIN.train) -> list[Check]:
    return accuracy_checks(label, systems["thc"], systems["gloo"], signs_alone.accuracy(train))


@functools.cache
def _plain(v: Verification) -> dict[str, Any]:
    """The run on good links, with which the impaired and the flooded one are compared."""
    return v.summary(PLAIN)


def _digits(v: Verification) -> list[Check]:
    label, systems = "digits, soft switch", _plain(v)["systems"]
    return [*plan.speed(_plain(v), label), *_accuracies(label, systems)]


def _impaired(v: Verification) -> list[Check]:
    thc = v.entry(RunOptions(switch="soft", impair=IMPAIR, systems=("thc",)))
    return impaired_checks(thc, _plain(v)["systems"]["gloo"], IMPAIR, signs_alone.accuracy(PLAIN.train))


def _malformed(v: Verification) -> list[Check]:
    thc = v.entry(RunOptions(switch="soft", link=FLOODED, malformed=MALFORMED, systems=("thc",)))
    return malformed_checks(thc, _plain(v)["systems"]["thc"], MALFORMED)


@needs_bmv2("digits, bmv2: accuracy", "as on the soft switch")
def _digits_on_bmv2(v: Verification) -> list[Check]:
    label = "digits, bmv2"
    options = RunOptions(switch="bmv2", link=BMV2_LINK, train=BMV2_TRAIN)
    summary = v.summary(options)
    soft = v.entry(replace(options, switch="soft", systems=("thc",)))
    same = summary["systems"]["thc"]["fingerprints"] == soft["fingerprints"]
    return [
        *plan.speed(summary, label),
        *_accuracies(label, summary["systems"], BMV2_TRAIN),
        equal(f"{label}: parameters bit-equal to those after the soft switch's run", same, True),
    ]


def _switch_rate(v: Verification) -> list[Check]:
    engine = switches.choose_engine("auto")
    there = tuple(name for name in switch.present() if name in (engine, "bmv2"))
    bench = switch.bench(SwitchBenchOptions(switches=there))
    rates = bench.record(v.rows(bench))["ops"]["thc"]["packets_per_second"]
    label = f"soft switch ({engine} engine), THC packets in over veth, against bmv2"
    return [plan.switch_rate(label, rates, engine, "bmv2", SWITCH_RATIO_MIN)]


EXPERIMENTS: Final[Experiments] = {
    "THC oracles": lambda _: oracle_checks(oracle_rows()),
    "codec": lambda v: [plan.codec(codec_record(v.results))],
    "digits, soft switch": _digits,
    "impaired run": _impaired,
    "malformed packets": _malformed,
    "digits, bmv2": _digits_on_bmv2,
    "packet tests on bmv2": packet_tests,
    "packets per second": _switch_rate,
}
