# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What `sumwire pays` measures: the processor time of a step with gloo, torch's hooks and each system over a switch.

A few processes of this machine make steps with the model's tensors, or with a sample of them, in
:mod:`sumwire.start.steps`. So everything that a host does counts: codec, copies, packets and Python. Nothing leaves the
machine.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import tempfile
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean
from typing import IO, Any, Final

from nativelib import programs
from sumwire_protocol.ops import BY_NAME

from sumwire.codec.errors import CodecError
from sumwire.codec.tables import for_workers
from sumwire.errors import SumwireError
from sumwire.lowrank.fusion import Plan, make_plan
from sumwire.start.errors import StartError
from sumwire.start.steps import LARGE, LARGE_VALUES, RANKS, SMALL, Spent, table_of
from sumwire.systems.formula import ring_steps
from sumwire.systems.pays import GLOO, LABELS, HostCost, Measured, Question, numbers_sent, operations
from sumwire.systems.spec import GROUP, SWITCH, Member, Route
from sumwire.systems.table import TABLE

VALUES_MOST: Final = 1 << 21
"""Values of the tensors with which steps are made. Of a larger model a sample counts for all."""
_TENSORS_MOST: Final = 1000
PATIENCE_S: Final = 60.0
"""Seconds after which other ranks that still measure are worth a warning."""
_TIMEOUT_S: Final = 300.0
_ALONE: Final = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "GLOO_SOCKET_IFNAME": "lo"}


def measured(asked: Question, wanted: Container[str] | None = None) -> Measured:
    """Measure the costs: of all systems, or of gloo, torch's hooks and those ``wanted``. Takes seconds.

    Raises StartError where the steps cannot be made.
    """
    asks, left_out = _switched(asked.workers, wanted)
    shapes = sample([item.shape for item in asked.plan.items])
    plan = make_plan(shapes, asked.rank)
    values = sum(map(math.prod, shapes))
    by_rank = _steps({"shapes": shapes, "rank": asked.rank, "systems": [*LABELS, *asks]})
    hosts = {}
    for name in (*LABELS, *asks):
        host_s = fmean(one[name][0] for one in by_rank)
        if name in LABELS:
            host_s += _of_more_ranks(name, plan, asked.workers, by_rank)
        hosts[name] = HostCost(host_s / values, by_rank[0][name][1] / RANKS / values, asks.get(name, False))
    return Measured(hosts, _step_s(by_rank, len(os.sched_getaffinity(0))), left_out)


def _step_s(by_rank: Sequence[Spent], cores: int) -> float:
    """Seconds of one message of a small all-reduce that the ranks' processor time on these cores does not explain."""
    spent_s = math.fsum(one[SMALL][0] for one in by_rank) / min(cores, RANKS)
    return max(_largest(by_rank, SMALL, 1) - spent_s, 0.0) / ring_steps(RANKS)


def _of_more_ranks(name: str, plan: Plan, workers: int, by_rank: Sequence[Spent]) -> float:
    """CPU seconds of a rank among so many workers, above those among the ranks of the trial: for more bytes, and for
    more messages of gloo's ring."""
    cost = TABLE[name].routes[GROUP].cost
    few, many = (cost.both_ways(numbers_sent(cost.carried, plan), ranks)[0] for ranks in (RANKS, workers))
    (large, _) = TABLE[GLOO].routes[GROUP].cost.both_ways(LARGE_VALUES, RANKS)
    messages = operations(name) * (ring_steps(workers) / ring_steps(RANKS) - 1)
    return (many - few) / large * _largest(by_rank, LARGE, 0) + messages * _largest(by_rank, SMALL, 0)


def _largest(by_rank: Sequence[Spent], name: str, place: int) -> float:
    return max(one[name][place] for one in by_rank)


def sample(shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return tensors of :data:`VALUES_MOST` values or fewer: all, or of each group of equally many by size the middle
    one, which has fewer rows where it is too large.

    Example: 104 matrices of 1024 x 1024 and some vectors have 53 times too many values. In the order of sizes, number
    26 and number 79 are taken: two matrices.
    """
    values = sum(map(math.prod, shapes))
    group = max(math.ceil(values / VALUES_MOST), math.ceil(len(shapes) / _TENSORS_MOST))
    if group == 1:
        return [*shapes]
    ordered = sorted(shapes, key=math.prod, reverse=True)
    chosen = ordered[min(group // 2, len(ordered) - 1) :: group]
    most = VALUES_MOST // len(chosen)
    return [_cut(shape, most) for shape in chosen]


def _cut(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    if math.prod(shape) <= most:
        return shape
    rows = most // math.prod(shape[1:])
    return (rows, *shape[1:]) if rows else (most,)


def _switched(workers: int, wanted: Container[str] | None) -> tuple[dict[str, bool], dict[str, str]]:
    """By system over a switch whether its workers agree on norms or exponents, and why others are left out."""
    asks, left_out = dict[str, bool](), dict[str, str]()
    for name, route in _routes():
        if wanted is not None and name not in wanted:
            continue
        most = BY_NAME[route.ops[0]].workers_max
        if workers > most:
            left_out[name] = f"a switch takes {most} workers at most"
            continue
        try:
            asks[name] = _asks(name, route, workers)
        except (CodecError, SumwireError) as error:
            left_out[name] = str(error)
    return asks, left_out


def _routes() -> Iterator[tuple[str, Route[Any]]]:
    """One in lanes costs what the system does whose packets it has."""
    for name, spec in TABLE.items():
        route = spec.routes.get(SWITCH)
        if route is not None and route.codec is not None and not route.laned:
            yield name, route


def _asks(name: str, route: Route[Any], workers: int) -> bool:
    table = for_workers(workers, kind=table_of(name)) if TABLE[name].table else None
    assert route.codec is not None
    return route.codec(Member(1, 0, workers, table)).info.preliminary_op is not None


def _steps(asked: Mapping[str, Any]) -> list[Spent]:
    """What each rank found. Raises StartError."""
    with tempfile.TemporaryDirectory(prefix="sumwire-pays-") as name, tempfile.TemporaryFile() as said:
        folder = Path(name)
        (folder / "asked.json").write_text(json.dumps(asked))
        with ThreadPoolExecutor(RANKS) as pool, contextlib.ExitStack() as running:
            ends = [pool.submit(_started(name, rank, said, running).wait, _TIMEOUT_S) for rank in range(RANKS)]
            for end in as_completed(ends):
                _check(end, said)
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


def _started(folder: str, rank: int, said: IO[bytes], running: contextlib.ExitStack) -> subprocess.Popen[bytes]:
    # Its standard input ends with this process, and then it ends too. Ctrl-C is for this process alone.
    process = subprocess.Popen(
        programs.module("sumwire.start.steps", folder, str(rank)), env=programs.environment(_ALONE),
        stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    running.enter_context(process)
    running.callback(process.kill)
    return process


def _check(end: Future[int], said: IO[bytes]) -> None:
    """Raises StartError for a rank that has failed, or has not ended."""
    try:
        status = end.result()
    except subprocess.TimeoutExpired as error:
        raise StartError(
            f"steps between processes of this machine: not done after {_TIMEOUT_S:g} s: end what else it computes"
        ) from error
    if status:
        said.seek(0)
        last = (said.read().decode(errors="replace").splitlines() or [f"one has ended with {status}"])[-1]
        raise StartError(f"steps between processes of this machine: {last}; mend that, and try again")
