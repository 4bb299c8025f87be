# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which calls are known to be of gradients, where no whole training can show it on a machine without a GPU."""

from __future__ import annotations

import ctypes

import torch
from sumwire.backend.gradients import called_for_gradient


def test_a_thread_that_runs_no_python() -> None:
    """As those of a GPU's backward pass."""
    c = ctypes.CDLL(None)
    thread, result = ctypes.c_void_p(), ctypes.c_void_p()
    call = ctypes.CFUNCTYPE(ctypes.c_long)(called_for_gradient)
    assert c.pthread_create(ctypes.byref(thread), None, call, None) == 0
    assert c.pthread_join(thread, ctypes.byref(result)) == 0
    assert result.value == 1


def test_python_s_own_calls() -> None:
    found = []
    assert not called_for_gradient()
    x = torch.ones(1, requires_grad=True)
    x.register_hook(lambda gradient: found.append(called_for_gradient()))
    x.sum().backward()
    assert found == [False]
