# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire pays`: estimates the seconds of communication per step with gloo, torch's hooks and every system over a
switch.

:mod:`sumwire.start.trial` measures a host's processor time for a step with each. The rest is the formula of
docs/where-it-pays.md with the constants below. This module only computes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from sumwire_protocol import constants as p4

from sumwire.errors import ConfigError
from sumwire.lowrank.fusion import THRESHOLD_BYTES, Phase, Plan, make_plan
from sumwire.systems.cost import BOTH_FACTORS, EVERY_VALUE, CarriedValues, Cost, InPackets
from sumwire.systems.formula import (
    Costs,
    OneAllReduce,
    WireTraffic,
    processors_s,
    ring_steps,
    round_trips,
    seconds,
    wire_s,
)
from sumwire.systems.marsit import MarsitOptions
from sumwire.systems.spec import GROUP, SWITCH
from sumwire.systems.table import TABLE
from sumwire.wire.packets import HEADER_BYTES, LOWER_HEADER_BYTES, WORD_BYTES

GLOO: Final = "ssgd"
POWER_SGD: Final = "powersgd"
EXACT: Final = "sum32"
MARSIT: Final = "marsit"
LABELS: Final[Mapping[str, str]] = {GLOO: "gloo", "fp16": "fp16 hook", POWER_SGD: "Power-SGD hook"}
# Their results are near enough the mean gradient that nothing else of a training changes.
STAND_INS: Final = (GLOO, "fp16", EXACT, "thc", "thc-wide")
GAIN_LEAST: Final = 1.1

# Medians of the constants of docs/where-it-pays.md, without bmv2's.
BUSY: Final = 0.81
APART: Final = 0.31

# A worker keeps half of a job's slots under way.
_UNDER_WAY_BYTES: Final = p4.SLOTS_TOTAL // 2 * (LOWER_HEADER_BYTES + HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES)
_SIDE: Final = 1024
_VALUES: Final = _SIDE * _SIDE
_VALUE_BYTES: Final = 4
_COUNTS: Final[Mapping[str, float]] = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}
_TIMES: Final[Mapping[str, float]] = {"us": 1e-6, "ms": 1e-3, "s": 1}
_MOST: Final = 1e12
_ADDED: Final = ("seconds", "up_bytes", "down_bytes", "host_ms")
_WHERE: Final = "pays"
_SIZES: Final = re.compile(r"([1-9]\d{0,11}(?:x[1-9]\d{0,11})*)(?:\*(\d{1,12}))?")
# A plan of so many takes a second or two.
_TENSORS_MOST: Final = 100_000


@dataclass(frozen=True)
class Question:
    """The job to estimate. ``aggregator_bps``: the link rate of a software aggregator; None for a P4 switch. ``cores``:
    how many cores workers and aggregator share; None for one each."""

    plan: Plan
    workers: int
    link_bps: float
    rtt_s: float
    aggregator_bps: float | None = None
    buckets: int = 1
    cores: int | None = None
    rank: int = 4

    @property
    def values(self) -> int:
        """Number of values of the gradient."""
        return self.plan.dense_bytes // _VALUE_BYTES


@dataclass(frozen=True)
class HostCost:
    """CPU seconds of a host per value of the gradient, and of an aggregator per value of each worker. ``asks``: the
    workers agree on norms or exponents."""

    value_s: float
    aggregator_s: float = 0.0
    asks: bool = False


@dataclass(frozen=True)
class Measured:
    """The costs on one machine, by system. ``step_s``: seconds until a message or an answer is taken up, without its
    way on a link. ``left_out``: why other systems have no cost."""

    hosts: Mapping[str, HostCost]
    step_s: float
    left_out: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def slowest(cls, machines: Sequence[Mapping[str, Any]]) -> Measured:
        """Return the highest cost of each. ``machines``: what :func:`dataclasses.asdict` makes of the costs of each."""
        hosts = {
            name: HostCost(
                max(one["hosts"][name]["value_s"] for one in machines),
                max(one["hosts"][name]["aggregator_s"] for one in machines),
                first["asks"],
            )
            for name, first in machines[0]["hosts"].items()
        }
        return cls(hosts, max(one["step_s"] for one in machines), machines[0]["left_out"])


@dataclass(frozen=True)
class Answer:
    """The cost of a step with one system. ``host_ms``: CPU milliseconds of a host per million values."""

    system: str
    seconds: float
    up_bytes: float
    down_bytes: float
    host_ms: float
    limit: str


def question(
    tensors: Sequence[tuple[int, ...]], rate: str | None, rtt: str, workers: int, *, rank: int = 4,
    aggregator: str | None = None,
) -> Question:  # fmt: skip
    """Return the question that these options ask. Raises ConfigError."""
    for option, number, least, usual in (("--workers", workers, 2, 8), ("--rank", rank, 1, 4)):
        if number < least:
            raise ConfigError(option, number, f"must be {least} or more", where=_WHERE, cure=f"write {option} {usual}")
    if rate is None:
        cure = "write --rate 1G, or have torchrun, srun or mpirun start the command on each machine, and it is measured"
        raise ConfigError("--rate", rate, "must be given where one machine is asked", where=_WHERE, cure=cure)
    return question_of(
        tensors,
        workers,
        _quantity("--rate", rate, _COUNTS, "1G"),
        _quantity("--rtt", rtt, _TIMES, "0.2ms"),
        None if aggregator is None else bit_rate("--aggregator", aggregator),
        rank=rank,
    )


def question_of(
    tensors: Sequence[tuple[int, ...]], workers: int, link_bps: float, rtt_s: float,
    aggregator_bps: float | None = None, *, cores: int | None = None, rank: int = 4,
) -> Question:  # fmt: skip
    """Return the question about a model with tensors of these shapes, in DDP's buckets. See :class:`Question`."""
    plan = make_plan(tensors, rank)
    buckets = math.ceil(plan.dense_bytes / THRESHOLD_BYTES)
    return Question(plan, workers, link_bps, rtt_s, aggregator_bps, buckets, cores, rank)


def bit_rate(option: str, text: str) -> float:
    """Return the bit/s of a text such as 10G. Raises ConfigError, which names the option."""
    return _quantity(option, text, _COUNTS, "10G")


def tensors_of(params: str | None, shapes: str | None, model: str | None) -> list[tuple[int, ...]]:
    """Return the shapes that these options tell. Without ``params``, ``model`` gives them, in a form that
    :func:`sumwire.dlcp.layers.shapes_of` takes. Raises ConfigError and UsageError."""
    if params is not None:
        return _tensors(max(round(_quantity("--params", params, _COUNTS, "110M")), 1), shapes)
    if model is None or shapes is not None:
        raise ConfigError("--model", model, "must be given without --shapes", where=_WHERE, cure="leave --shapes out")
    from sumwire.dlcp.layers import shapes_of

    return [shape or (1,) for _, shape in shapes_of(model)]


def _quantity(option: str, text: str, units: Mapping[str, float], example: str) -> float:
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)([A-Za-z]*)", text)
    value = float(match[1]) * units.get(match[2], 0.0) if match else 0.0
    if not 0 < value <= _MOST:
        rule = f"must be a number above 0, at most {_MOST:g}, with a unit of {', '.join(filter(None, units))}"
        raise ConfigError(option, text, rule, where=_WHERE, cure=f"write {option} {example}")
    return value


def _tensors(values: int, shapes: str | None) -> list[tuple[int, ...]]:
    """The matrices, by default square ones, and a vector of the rest."""
    found: list[tuple[int, ...]] = []
    rest = values
    for text in shapes.split(",") if shapes is not None else [f"{_SIDE}x{_SIDE}*{values // _VALUES}"]:
        match = _SIZES.fullmatch(text)
        if match is None:
            rule = "must be sizes with x between them, and * before the number of such tensors"
            raise ConfigError("--shapes", text, rule, where=_WHERE, cure="write --shapes 768x3072*24,30522x768")
        shape, count = tuple(map(int, match[1].split("x"))), int(match[2] or 1)
        rest -= count * math.prod(shape)
        if rest < 0:
            rule = f"must have no more values than --params, which has {-rest} fewer"
            raise ConfigError("--shapes", text, rule, where=_WHERE, cure="correct one of the two")
        if len(found) + count > _TENSORS_MOST:
            rule = f"must be {_TENSORS_MOST} tensors at most"
            raise ConfigError("--shapes", text, rule, where=_WHERE, cure="write --shapes with fewer and larger ones")
        found += [shape] * count
    return [*found, (rest,)] if rest else found


def answers(asked: Question, measured: Measured) -> list[Answer]:
    """Return an answer for each system by the formula, without communication that overlaps with the backward
    pass."""
    found = {name: _answer(name, asked, measured) for name in measured.hosts}
    if MARSIT in found and EXACT in found:
        # Some of Marsit's rounds are in full precision.
        share = 1 / MarsitOptions.defaults()["full_precision_every"]
        signs, exact = found[MARSIT], found[EXACT]
        mixed = {name: (1 - share) * getattr(signs, name) + share * getattr(exact, name) for name in _ADDED}
        found[MARSIT] = replace(signs, **mixed)
    return list(found.values())


def numbers_sent(carried: CarriedValues, plan: Plan) -> float:
    """Return the numbers of a step: P and Q of one step with Power-SGD, by turns with ACP-SGD."""
    if carried is EVERY_VALUE:
        return plan.dense_bytes / _VALUE_BYTES
    p, q = (plan.sent_bytes(phase) / _VALUE_BYTES for phase in Phase)
    if carried is BOTH_FACTORS:
        return p + q - sum(item.values for item in plan.items if not item.rank)
    return (p + q) / 2


def operations(name: str) -> int:
    """Return the all-reduces of a bucket: Power-SGD's hook sums whole tensors, P and Q, one after the other."""
    return 3 if name == POWER_SGD else 1


def _bucket_bytes(name: str, asked: Question) -> tuple[float, float]:
    """The bytes of a bucket on a worker's link, up and down."""
    cost = _cost(name)
    return cost.both_ways(numbers_sent(cost.carried, asked.plan) / asked.buckets, asked.workers)


def _cost(name: str) -> Cost:
    return TABLE[name].routes[GROUP if name in LABELS else SWITCH].cost


def _apart(name: str, asked: Question, hosts: Mapping[str, HostCost]) -> float:
    """Return the share, 0 to 1, of the shorter of wire and processors that is not hidden behind the longer.

    It is the formula's constant for packets and for gloo's rings. A hook converts a bucket before its ring and after,
    and low rank computes on when its factors have come. Nothing of that is hidden.
    """
    if name not in LABELS:
        return APART if _cost(name).carried is EVERY_VALUE else 1.0
    gloo_s = hosts[GLOO].value_s * _bucket_bytes(name, asked)[0] / _bucket_bytes(GLOO, asked)[0]
    ring = min(gloo_s / hosts[name].value_s, 1.0)
    return ring * APART + 1.0 - ring


def _answer(name: str, asked: Question, measured: Measured) -> Answer:
    host, step_s = measured.hosts[name], measured.step_s
    cost, values = _cost(name), asked.values / asked.buckets
    up, down = _bucket_bytes(name, asked)
    links, way_s, aggregator_s = {"link": asked.link_bps}, 0.5, 0.0
    steps = operations(name) * ring_steps(asked.workers)
    if isinstance(cost, InPackets):
        packets = up / (LOWER_HEADER_BYTES + HEADER_BYTES + cost.op.up.words * WORD_BYTES)
        steps, way_s = round_trips(packets, asks=host.asks), 1.0
        links["round trips"] = 8 * _UNDER_WAY_BYTES / asked.rtt_s
        if asked.aggregator_bps is not None:
            links["aggregator's link"] = asked.aggregator_bps / asked.workers
            aggregator_s = host.aggregator_s
    slowest = min(links, key=links.__getitem__)
    step_s += way_s * asked.rtt_s
    # What an all-reduce costs, however small, was measured with its values.
    costs = Costs(host.value_s, aggregator_s, 0.0, step_s, busy=BUSY, apart=_apart(name, asked, measured.hosts))
    setting = OneAllReduce(values, links[slowest] / 1e6, asked.workers, asked.cores or asked.workers + 1)
    sent = WireTraffic(max(up, down), steps)
    parts = {"processor": processors_s(costs, setting), "round trips": steps * step_s}
    parts[slowest] = max(parts.get(slowest, 0.0), wire_s(sent.octets, setting.link_mbit))
    took, limit = asked.buckets * seconds(sent, costs, setting), max(parts, key=parts.__getitem__)
    return Answer(name, took, asked.buckets * up, asked.buckets * down, 1e9 * costs.host_s, limit)


def recommendation(found: Sequence[Answer]) -> str:
    """Recommend the fastest of the systems that can replace gloo without a trial, if it gains enough.

    Also names what is faster but needs a trial: the fastest of all, and the fastest of torch's own hooks.
    """
    by_name = {one.system: one for one in found}
    gloo, best = by_name[GLOO], stand_in(found)
    if best is gloo:
        text = f"stay with gloo: nothing that stands in for it is faster by {GAIN_LEAST - 1:.0%} or more"
    else:
        took = f"{best.seconds:.3g} s a step for gloo's {gloo.seconds:.3g}"
        text = f"take {label(best)}: {took}, {gloo.seconds / best.seconds:.1f} times faster"
    of_torch = [by_name[name] for name in LABELS if name in by_name]
    fastest = dict.fromkeys(min(group, key=lambda one: one.seconds) for group in (found, of_torch))
    trials = [one for one in fastest if best.seconds >= GAIN_LEAST * one.seconds]
    if not trials:
        return text
    named = ", ".join(f"{label(one)} ({one.seconds:.3g} s)" for one in trials)
    return f"{text}\nfaster, but try your model's accuracy first: {named}"


def stand_in(found: Sequence[Answer]) -> Answer:
    """Return the fastest of :data:`STAND_INS` if it gains enough over gloo, and gloo otherwise."""
    by_name = {one.system: one for one in found}
    gloo = by_name[GLOO]
    best = min((by_name[name] for name in STAND_INS if name in by_name), key=lambda one: one.seconds)
    return best if gloo.seconds >= GAIN_LEAST * best.seconds else gloo


def label(one: Answer) -> str:
    """Return a system's name, as people know it."""
    return LABELS.get(one.system, one.system)


def as_dict(found: Sequence[Answer], left_out: Mapping[str, str], asked: Question) -> dict[str, Any]:
    """Return the contents as values that JSON can hold."""
    setting = {"workers": asked.workers, "link_bps": asked.link_bps, "rtt_s": asked.rtt_s}
    systems = [asdict(one) for one in found]
    return {**setting, "systems": systems, "left_out": left_out, "recommendation": recommendation(found)}


def as_text(
    found: Sequence[Answer], left_out: Mapping[str, str], asked: Question, *, machines: int = 1, assumed: bool,
    script: str | None = None,
) -> str:  # fmt: skip
    """Return the table, what was left out, and the recommendation. ``machines``: number of machines between which
    paths were measured. ``assumed``: whether the shapes are not the user's. ``script``: from which they are."""
    lines = [f"{'system':15}{'s a step':>10}{'MB up':>10}{'MB down':>10}{'CPU, ms/M':>11}  limit"]
    lines += [
        f"{label(one):15}{one.seconds:10.4f}{one.up_bytes / 1e6:10.2f}{one.down_bytes / 1e6:10.2f}{one.host_ms:11.2f}"
        f"  {one.limit}"
        for one in found
    ]
    lines += [f"left out: {name}: {why}" for name, why in left_out.items()]
    if machines > 1:
        between = f"{asked.link_bps / 1e6:.4g} Mbit/s and {asked.rtt_s * 1e3:.3g} ms there and back"
        lines.append(f"between {machines} machines: {between}, the slowest path; CPU times are the slowest machine's")
    lines.append("measured here: the CPU time of a step; all else is computed")
    if script is not None:
        lines.append(f"shapes: {asked.values:,} values in {len(asked.plan.items)} tensors, of {script}")
    lines += (
        [f"assumed: matrices of {_SIDE}x{_SIDE}; a script, --shapes or --model tells the model's"] if assumed else []
    )
    return "\n".join([*lines, recommendation(found)])
