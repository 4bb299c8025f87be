# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire pays`: estimates the seconds of communication per step with gloo, torch's hooks and every system over a
switch.

It measures a host's processor time for each codec and for gloo on this machine. The rest is the formula of
docs/where-it-pays.md with the constants below. No packet leaves the machine.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sumwire_protocol import constants as p4
from sumwire_protocol.ops import BY_NAME
from sumwire_protocol.tables import AUTO, UNIFORM

from sumwire.errors import ConfigError, SumwireError
from sumwire.lowrank.fusion import THRESHOLD_BYTES, Item, Phase, Plan, make_plan
from sumwire.systems.cost import BOTH_FACTORS, EVERY_VALUE, CarriedValues, InPackets
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
from sumwire.systems.spec import GROUP, SWITCH, Member, Route
from sumwire.systems.table import TABLE
from sumwire.wire.packets import HEADER_BYTES, LOWER_HEADER_BYTES, WORD_BYTES

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from sumwire.codec.base import CodecRound

GLOO: Final = "ssgd"
POWER_SGD: Final = "powersgd"
EXACT: Final = "sum32"
MARSIT: Final = "marsit"
LABELS: Final[Mapping[str, str]] = {GLOO: "gloo", "fp16": "fp16 hook", POWER_SGD: "Power-SGD hook"}
# Their results are near enough the mean gradient that nothing else of a training changes.
STAND_INS: Final = (GLOO, "fp16", EXACT, "thc", "thc-wide")
GAIN_LEAST: Final = 1.1

# Medians of the constants of docs/where-it-pays.md, without bmv2's. Seconds are those of its machine, where gloo's cost
# of a value, in a message of its ring, is GLOO_MESSAGE_S.
OPERATION_S: Final = 0.81e-3
STEP_S: Final = 0.27e-3
BUSY: Final = 0.81
APART: Final = 0.31
AGGREGATOR_PACKET_S: Final = 0.45e-6
# What a host's CPU time there leaves beside the codec.
PACKET_S: Final = 0.4e-6
GLOO_MESSAGE_S: Final = 2.0e-9 / 1.5

# A worker keeps half of a job's slots under way.
_UNDER_WAY_BYTES: Final = p4.SLOTS_TOTAL // 2 * (LOWER_HEADER_BYTES + HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES)
_SIDE: Final = 1024
_SMALL_SIDE: Final = 32
_VALUES: Final = _SIDE * _SIDE
_ROUNDS: Final = 7
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
    """CPU seconds of a host per value of the gradient, without packets. ``asks``: the workers agree on norms or
    exponents."""

    value_s: float
    asks: bool = False


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


def measured(asked: Question, wanted: Container[str] | None = None) -> tuple[dict[str, HostCost], dict[str, str]]:
    """Measure the hosts' costs by system: of all, or of gloo, torch's hooks and those ``wanted``. Also returns why
    others are left out. Takes seconds."""
    import torch

    from sumwire.codec.errors import CodecError

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        gloo_s, gradient = _gloo_s(torch.float32, asked), _drawn(_VALUES)
        half_s = _gloo_s(torch.float16, asked) + _least_s(lambda _: gradient.copy_(gradient.half())) / _VALUES
        matrices = [item for item in asked.plan.items if item.rank]
        value_s = _low_rank_s(asked.rank, _SIDE) / _VALUES
        # Of a small one nearly all is what any matrix costs.
        each_s = max(0.0, _low_rank_s(asked.rank, _SMALL_SIDE) - value_s * _SMALL_SIDE**2)
        both_s = (value_s * sum(item.values for item in matrices) + each_s * len(matrices)) / asked.values
        power_s = both_s + _sent(BOTH_FACTORS, asked) / asked.values * gloo_s
        found = {GLOO: HostCost(gloo_s), "fp16": HostCost(half_s), POWER_SGD: HostCost(power_s)}
        left_out: dict[str, str] = {}
        for name, route in _switched():
            if wanted is not None and name not in wanted:
                continue
            most = BY_NAME[route.ops[0]].workers_max
            if asked.workers > most:
                left_out[name] = f"a switch takes {most} workers at most"
                continue
            try:
                codec = _codec_cost(name, route, asked.workers)
            except (CodecError, SumwireError) as error:
                left_out[name] = str(error)
                continue
            carried = route.cost.carried
            own = 0.0 if carried is EVERY_VALUE else both_s / 2
            found[name] = HostCost(own + _sent(carried, asked) / asked.values * codec.value_s, codec.asks)
    finally:
        torch.set_num_threads(threads)
    return found, left_out


def _switched() -> Iterator[tuple[str, Route[Any]]]:
    """Systems over a switch. One in lanes costs what the system does whose packets it has."""
    for name, spec in TABLE.items():
        route = spec.routes.get(SWITCH)
        if route is not None and route.codec is not None and not route.laned:
            yield name, route


def _least_s(work: Callable[[int], object], clock: Callable[[], float] = time.thread_time) -> float:
    """Seconds of the quickest round, without the first."""
    spent = []
    for number in range(_ROUNDS):
        began = clock()
        work(number)
        spent.append(clock() - began)
    return min(spent[1:])


def _codec_cost(name: str, route: Route[Any], workers: int) -> HostCost:
    """Of one worker's round, with error feedback. Raises CodecError or SumwireError for too many workers."""
    import numpy as np

    from sumwire.codec.feedback import ErrorFeedback
    from sumwire.codec.oracles import sum_words
    from sumwire.codec.tables import for_workers

    spec = TABLE[name]
    table = for_workers(workers, kind=UNIFORM if spec.table == "uniform" else AUTO) if spec.table else None
    assert route.codec is not None
    codec, feedback, gradient = route.codec(Member(1, 0, workers, table)), ErrorFeedback(), _drawn(_VALUES)

    def begun(sequence: int) -> tuple[CodecRound, NDArray[np.uint8]]:
        round_ = codec.begin(feedback.compensate(0, gradient), sequence, 0)
        return round_, round_.encode(round_.preliminary())

    words = begun(0)[1]
    # A switch answers with sums of table values, or with what one worker has sent.
    summed, counts = words if table is None else sum_words(table, [words]), np.ones(len(words), np.int64)

    def work(sequence: int) -> None:
        round_, _ = begun(sequence)
        round_.decode(summed, counts)
        feedback.store(0, round_.residual())

    return HostCost(_least_s(work) / _VALUES, codec.info.preliminary_op is not None)


def _gloo_s(dtype: torch.dtype, asked: Question) -> float:
    """Of a ring of these workers, from two ranks in threads of this process, which send half as much or more."""
    import torch
    import torch.distributed

    dist: Any = torch.distributed  # its stubs lack half of these names
    store, together = dist.HashStore(), threading.Barrier(2)

    def rank(number: int) -> float:
        options = dist.ProcessGroupGloo._Options()
        try:
            options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
            group, x = dist.ProcessGroupGloo(store, number, 2, options), torch.ones(_VALUES, dtype=dtype, device="cpu")

            def work(_: int) -> None:
                together.wait()
                group.allreduce([x]).wait()
                together.wait()

            return _least_s(work, time.process_time)
        except Exception:
            together.abort()
            raise

    with ThreadPoolExecutor(2) as pool:
        spent = min(pool.map(rank, range(2)))
    return spent / 2 / _VALUES * _gloo_messages(asked.workers)


def _gloo_messages(workers: int) -> float:
    """How many times a rank sends a value in a ring."""
    return ring_steps(workers) / workers


def _drawn(*shape: int) -> torch.Tensor:
    """Normal values, as a gradient's."""
    import torch

    return torch.randn(shape, dtype=torch.float32, device="cpu")


def _low_rank_s(rank: int, side: int) -> float:
    """Seconds of a P step and a Q step of ACP-SGD on a square matrix. Power-SGD's hook does nearly both in one step."""
    import torch

    from sumwire.lowrank.matrices import MatrixState

    gradient = _drawn(side, side)
    state = MatrixState(Item((side, side), min(rank, side), _VALUE_BYTES), gradient, seed=1, number=0)

    def work(_: int) -> None:
        for phase in Phase:
            sent = state.compress(gradient, phase)
            state.restore(sent, torch.zeros_like(sent), torch.empty_like(gradient))
            state.commit()

    return _least_s(work)


def answers(asked: Question, hosts: Mapping[str, HostCost]) -> list[Answer]:
    """Return an answer for each system by the formula, without communication that overlaps with the backward pass.

    Constants in seconds are longer on a machine where gloo takes longer, by its factor.
    """
    usual_s = _gloo_messages(asked.workers) * GLOO_MESSAGE_S
    slower = hosts[GLOO].value_s / usual_s if GLOO in hosts else 1.0
    found = {name: _answer(name, asked, host, slower) for name, host in hosts.items()}
    if MARSIT in found and EXACT in found:
        # Some of Marsit's rounds are in full precision.
        share = 1 / MarsitOptions.defaults()["full_precision_every"]
        signs, exact = found[MARSIT], found[EXACT]
        mixed = {name: (1 - share) * getattr(signs, name) + share * getattr(exact, name) for name in _ADDED}
        found[MARSIT] = replace(signs, **mixed)
    return list(found.values())


def _sent(carried: CarriedValues, asked: Question) -> float:
    """Numbers of a step: P and Q of one step with Power-SGD, by turns with ACP-SGD."""
    if carried is EVERY_VALUE:
        return asked.values
    p, q = (asked.plan.sent_bytes(phase) / _VALUE_BYTES for phase in Phase)
    if carried is BOTH_FACTORS:
        return p + q - sum(item.values for item in asked.plan.items if not item.rank)
    return (p + q) / 2


def _answer(name: str, asked: Question, host: HostCost, slower: float) -> Answer:
    over = GROUP if name in LABELS else SWITCH
    cost, values = TABLE[name].routes[over].cost, asked.values / asked.buckets
    numbers = _sent(cost.carried, asked) / asked.buckets
    up, down = cost.both_ways(numbers, asked.workers)
    links, packet_s, way_s, aggregator_s = {"link": asked.link_bps}, 0.0, 0.5, 0.0
    # Power-SGD's hook sums whole tensors, P and Q one after the other, and computes nothing meanwhile.
    operations, apart = (3, 1.0) if name == POWER_SGD else (1, APART)
    steps = operations * ring_steps(asked.workers)
    if isinstance(cost, InPackets):
        packets = up / (LOWER_HEADER_BYTES + HEADER_BYTES + cost.op.up.words * WORD_BYTES)
        steps, way_s, packet_s = round_trips(packets, asks=host.asks), 1.0, slower * PACKET_S * packets / values
        links["round trips"] = 8 * _UNDER_WAY_BYTES / asked.rtt_s
        if asked.aggregator_bps is not None:
            links["aggregator's link"] = asked.aggregator_bps / asked.workers
            aggregator_s = slower * AGGREGATOR_PACKET_S * packets / values
    slowest = min(links, key=links.__getitem__)
    step_s = slower * STEP_S + way_s * asked.rtt_s
    operation_s = slower * operations * OPERATION_S
    costs = Costs(host.value_s + packet_s, aggregator_s, operation_s, step_s, busy=BUSY, apart=apart)
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


def slowest(by_rank: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, HostCost]:
    """Return the highest cost of each system. ``by_rank``: costs as :func:`dataclasses.astuple` gives them."""
    return {name: HostCost(max(costs[name][0] for costs in by_rank), bool(by_rank[0][name][1])) for name in by_rank[0]}


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
    lines.append("measured here: the CPU time of codecs and gloo; all else is computed")
    if script is not None:
        lines.append(f"shapes: {asked.values:,} values in {len(asked.plan.items)} tensors, of {script}")
    lines += (
        [f"assumed: matrices of {_SIDE}x{_SIDE}; a script, --shapes or --model tells the model's"] if assumed else []
    )
    return "\n".join([*lines, recommendation(found)])
