# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of process groups, one after the other on ranks that keep their default group.

PyTorch starts processes anew for each of them. Here a test is a method of a class whose ranks are there already.
They take what they may expect from the name of a backend, so they are told "gloo", of which they expect most.
"""

from __future__ import annotations

import importlib
import os
import unittest
from typing import Any

import torch
import torch.distributed as dist

_WORLD = "8"
# Tests that compare the backend's name.
_OF_THE_NAME = ("test_get_backend",)
_MODULE = "torch.testing._internal.distributed.distributed_test"


def names() -> list[str]:
    """Of all of PyTorch's tests of process groups. To be called in a process of its own: what it imports is large."""
    return sorted(name for name in dir(_base()) if name.startswith("test_"))


def run_test(rank: int, name: str) -> str:
    """ "passed", or "skipped: " with the reason. Raises the test's error."""
    test = _class()(name)
    test.rank = rank
    test.file_name = os.devnull
    # Tests of groups of two ranks want eight in all, though three would do. Others divide by the number.
    of_a_pair = "_group" in name and "full_group" not in name
    os.environ["WORLD_SIZE"] = _WORLD if of_a_pair else str(dist.get_world_size())
    torch.manual_seed(1)
    if name in _OF_THE_NAME:
        _module().BACKEND = dist.get_backend()
    try:
        test.setUp()
        getattr(test, name)()
    except unittest.SkipTest as reason:
        return f"skipped: {reason}"
    except SystemExit as reason:
        # How PyTorch's decorators skip a test within a rank.
        return f"skipped: {_reason(reason.code)}"
    finally:
        _module().BACKEND = "gloo"
        dist.barrier()
    return "passed"


def _module() -> Any:
    os.environ |= {"BACKEND": "gloo", "WORLD_SIZE": _WORLD, "TEMP_DIR": "/tmp", "MASTER_ADDR": "127.0.0.1"}
    return importlib.import_module(_MODULE)


def _base() -> Any:
    return _module().DistributedTest._DistTestBase


def _class() -> Any:
    """Made once in a process."""
    if not _made:
        from torch.testing._internal.common_utils import TestCase

        class Case(_base(), TestCase):  # type: ignore[misc, valid-type]
            """With the ranks that are there."""

            rank: int
            file_name: str

            @property
            def world_size(self) -> int:
                return dist.get_world_size()

            def _barrier(self, *arguments: Any, **named: Any) -> None:
                dist.barrier()

        _made.append(Case)
    return _made[0]


_made: list[Any] = []


def _reason(code: object) -> str:
    from torch.testing._internal.common_distributed import TEST_SKIPS

    return next((skip.message for skip in TEST_SKIPS.values() if skip.exit_code == code), f"exit {code}")
