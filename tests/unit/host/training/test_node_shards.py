# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Shards of nodes with different numbers of ranks: the values of one have no partner in the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sumwire.errors import UsageError
from sumwire.training.hierarchical import NodeJob


def test_nodes_of_different_sizes_are_refused() -> None:
    node: Any = SimpleNamespace(size=1, leads=True, gather=lambda x: lambda: x, give_parts=lambda make: make())
    job: Any = SimpleNamespace(workers=2)
    whole = torch.tensor([1.0, 2.0])
    even = NodeJob("even", job, node, 2).mean_of_shards(whole)
    assert even(lambda _, x: (2 * x, lambda: x)).tolist() == [2.0, 4.0]
    odd = NodeJob("odd", job, node, 3).mean_of_shards(whole)
    with pytest.raises(UsageError, match="3 ranks on 2 nodes, 1 on this one: shards need as many ranks on every node"):
        odd(lambda _, x: (x, lambda: x))
