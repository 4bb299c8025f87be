# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which ranks are workers of a job, and which reductions go through it."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.backend import registration
from sumwire.backend.group import SumwireGroup
from sumwire.backend.inner_group import CALLS
from sumwire.backend.jobs import LaneWorker, Options, calls_at, map_rank
from sumwire.backend.network import ReduceRoute, op_of, possible, route_of
from sumwire.config import Lane
from sumwire.errors import UsageError

_CONFIG = "torch.distributed.config"
SUM, AVG, MAX, PRODUCT = (str(name) for name in ("SUM", "AVG", "MAX", ""))


def config(workers: int, lanes: int = 1) -> Any:
    made = configs({**job_mapping(workers, 64), "ops": ["thc", "max32", "sum32"]})[0]
    return replace(made, lanes=tuple(Lane(1 + lane, 64) for lane in range(lanes)))


@pytest.mark.parametrize(
    ("ranks", "rank", "world", "seat"),
    [
        ([0, 1], 1, 2, LaneWorker(1, 0)),
        ([0, 2], 1, 4, LaneWorker(1, 0)),
        ([1, 3], 0, 4, LaneWorker(0, 1)),
        ([0, 1], 0, 4, None),
        ([2, 3], 0, 4, None),
        ([0, 1, 2, 3], 3, 4, None),
        ([0, 2], 0, 3, None),
        ([2, 5], 0, 6, None),
    ],
    ids=["all", "lane 0", "lane 1", "one node", "the other node", "more than workers", "uneven", "too few lanes"],
)
def test_seats(ranks: list[int], rank: int, world: int, seat: LaneWorker | None) -> None:
    """A job of two workers and two lanes."""
    assert map_rank(config(2, 2), ranks, rank, world) == seat


@pytest.mark.parametrize(
    ("op", "dtype", "values", "precision", "route"),
    [
        (SUM, torch.float32, 4096, "4bit", ReduceRoute.FLOATS),
        (AVG, torch.bfloat16, 5000, "1bit", ReduceRoute.FLOATS),
        (SUM, torch.float32, 4095, "4bit", ReduceRoute.INNER),
        (SUM, torch.float32, 4096, "exact", ReduceRoute.INNER),
        (SUM, torch.float64, 4096, "4bit", ReduceRoute.INNER),
        (PRODUCT, torch.float32, 4096, "4bit", ReduceRoute.INNER),
        (SUM, torch.int32, 4096, "exact", ReduceRoute.INTEGERS),
        (SUM, torch.int64, 4096, "4bit", ReduceRoute.INNER),
        (AVG, torch.int32, 4096, "4bit", ReduceRoute.INNER),
        (MAX, torch.float32, 4096, "exact", ReduceRoute.EXTREME),
        (MAX, torch.float16, 4096, "4bit", ReduceRoute.INNER),
    ],
)
def test_ways(op: str, dtype: torch.dtype, values: int, precision: Any, route: ReduceRoute) -> None:
    assert route_of(op, dtype, values, 4096, precision) is route


def test_names_of_operations() -> None:
    assert [op_of(op) for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MIN)] == ["SUM", "AVG", "MIN"]
    assert op_of(dist.ReduceOp.PRODUCT) == op_of(dist.ReduceOp.BXOR) == ""


def test_a_job_without_the_op_or_with_a_quorum_is_not_exact() -> None:
    whole = config(4)
    assert possible(ReduceRoute.INTEGERS, whole)
    assert not possible(ReduceRoute.INTEGERS, replace(whole, ops=("thc", "max32")))
    assert not possible(ReduceRoute.EXTREME, replace(whole, quorum=3))
    assert possible(ReduceRoute.FLOATS, replace(whole, quorum=3))


def precisions(options: Options) -> tuple[str, str]:
    """Of gradients, and of other floats."""
    return options.chosen(gradient=True), options.chosen(gradient=False)


def test_gradients_alone_are_compressed_unless_a_precision_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUMWIRE_PRECISION", raising=False)
    assert precisions(Options()) == ("4bit", "exact")
    assert precisions(Options(gradients="8bit")) == ("8bit", "exact")
    assert precisions(Options(precision="8bit")) == ("8bit", "8bit")
    assert precisions(Options(precision="8bit", gradients="1bit")) == ("1bit", "8bit")
    with calls_at("exact"):
        assert precisions(Options(precision="8bit", gradients="1bit")) == ("exact", "exact")
    assert precisions(Options(precision="8bit")) == ("8bit", "8bit")


def test_what_is_no_precision_is_refused() -> None:
    wrong: Any = "2bit"
    for name, make in {
        "precision": lambda: Options(precision=wrong),
        "gradients": lambda: Options(gradients=wrong),
    }.items():
        with pytest.raises(UsageError, match=f"{name} = '2bit': must be one of"):
            make()
    with pytest.raises(UsageError, match="precision = '2bit': must be one of"), calls_at(wrong):
        pass


def test_the_environment_chooses_the_precision_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMWIRE_PRECISION", "8bit")
    assert precisions(Options()) == ("8bit", "exact")
    assert precisions(Options(precision="exact")) == ("exact", "exact")
    monkeypatch.setenv("SUMWIRE_PRECISION", "2bit")
    with pytest.raises(UsageError, match="SUMWIRE_PRECISION = '2bit': must be one of 'exact', '8bit', '4bit', '1bit'"):
        Options()
    with pytest.raises(UsageError, match="exact_below = 0: must be 1 or more"):
        Options(precision="4bit", exact_below=0)


def test_no_call_is_left_to_torch_which_would_hold_python_s_lock() -> None:
    """The names are those that torch's C++ asks a process group of Python for."""
    own = {"allreduce", "allreduce_coalesced", "reduce_scatter", "reduce_scatter_single", "_reduce_scatter_base"}
    own |= {"reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "start_coalescing", "end_coalescing"}
    assert own | CALLS.keys() <= vars(SumwireGroup).keys()


@pytest.mark.parametrize(("on", "installed", "warns"), [(True, True, True), (True, False, False), (False, True, False)])
def test_torchcomms_would_take_the_name(
    on: bool, installed: bool, warns: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, _CONFIG, SimpleNamespace(use_torchcomms=on))
    monkeypatch.setattr(registration.importlib.util, "find_spec", lambda name: object() if installed else None)
    registration.register(dist)
    assert ("unset TORCH_DISTRIBUTED_USE_TORCHCOMMS" in caplog.text) == warns
