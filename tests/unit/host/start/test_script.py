# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The process group that `sumwire.init()` makes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from sumwire.start import script


@pytest.mark.parametrize(
    ("cuda", "nccl", "backend"),
    [(True, True, "cpu:gloo,cuda:nccl"), (True, False, "gloo"), (False, True, "gloo"), (False, False, "gloo")],
)
def test_nccl_only_where_torch_has_it(monkeypatch: pytest.MonkeyPatch, cuda: bool, nccl: bool, backend: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: nccl)
    assert script._backend() == backend
