# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which calls are known to be of gradients, where no whole training can show it on a machine without a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest
import torch
from sumwire.backend.gradients import called_for_gradient
from torch.distributed.algorithms.ddp_comm_hooks import mixed_precision_hooks, optimizer_overlap_hooks


def group_s(found: list[Any]) -> Callable[..., Any]:
    """As a method of the group: notes what is known of an all-reduce, and of another call."""

    def method(*_: Any) -> None:
        found.extend((called_for_gradient(all_reduce=True), called_for_gradient(all_reduce=False)))

    named = {**globals(), "__name__": "sumwire.backend.group"}
    return FunctionType(method.__code__, named, closure=method.__closure__)


def test_a_thread_that_runs_no_python() -> None:
    """As those of a GPU's backward pass."""
    found: list[bool] = []
    c, thread = ctypes.CDLL(None), ctypes.c_void_p()
    call = ctypes.CFUNCTYPE(None)(group_s(found))
    assert c.pthread_create(ctypes.byref(thread), None, call, None) == 0
    assert c.pthread_join(thread, None) == 0
    assert found == [True, False]


def test_python_s_own_calls() -> None:
    found = []
    assert not called_for_gradient(all_reduce=True)
    x = torch.ones(1, requires_grad=True)
    x.register_hook(lambda gradient: found.append(called_for_gradient(all_reduce=True)))
    x.sum().backward()
    assert found == [False]


def test_calls_of_the_engine_s_own() -> None:
    """From C++ within a backward pass. Some torches gather in C++, whose gradient is a reduce-scatter."""
    found: list[bool] = []
    x = torch.ones(1, requires_grad=True)
    x.register_hook(group_s(found))
    x.sum().backward()
    assert found == [True, False]


def _mixed_precision(state: Any) -> None:
    hook_state: Any = SimpleNamespace(ddp_weakref=state, upcast_stream=None)
    mixed_precision_hooks._reducer_allreduce_and_upcast_hook(hook_state, None)


def _within_backward(state: Any) -> None:
    optimizer_overlap_hooks._apply_optim_in_backward_hook(False)(state, None)


@pytest.mark.parametrize("hook", [_mixed_precision, _within_backward])
def test_hooks_that_have_the_reducer_call(hook: Callable[[Any], None]) -> None:
    """Torch's own, which take an accelerator for what follows."""
    found: list[bool] = []
    precision = SimpleNamespace(param_dtype=torch.float16, reduce_dtype=torch.float16)
    reducer = SimpleNamespace(_run_allreduce_hook=group_s(found))
    model = SimpleNamespace(reducer=reducer, process_group=None, mixed_precision=precision)
    with pytest.raises((AttributeError, TypeError), match="NoneType"):
        hook(lambda: model)
    assert found == [True, True]
