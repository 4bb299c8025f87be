# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-papers on ACP-SGD: their experiments in short."""

from __future__ import annotations

import torch
from sumwire_lab.experiments import acp_steps
from sumwire_lab.experiments.acp_steps import ACP, LATE, UNFUSED, VARIANTS, Variant
from sumwire_lab.verify.rows import acp as rows
from torch import Tensor


def all_reduces(name: str) -> tuple[list[bool], int]:
    """Of one step: for every all-reduce, whether the first layer had its gradient; and the tensors to send."""
    variant = Variant(VARIANTS[name])
    carried, after = variant.link.reduce, []
    first = next(variant._model.parameters())

    def reduce(x: Tensor, number: int) -> tuple[Tensor, object]:
        after.append(first.grad is not None)
        return carried(x, number)

    variant._optimizer._reduction = reduce  # type: ignore[assignment]
    variant._optimizer._submit = at_once
    variant.step()
    variant.close()
    return after, len(variant._optimizer.plan.items)


def at_once(call: object) -> torch.futures.Future[None]:
    call()  # type: ignore[operator]
    done: torch.futures.Future[None] = torch.futures.Future()
    done.set_result(None)
    return done


def test_each_variant_lacks_what_it_is_named_after() -> None:
    """Gradients come from the last layer on, so the first layer's is the last."""
    usual, tensors = all_reduces(ACP)
    assert acp_steps.BUFFERS <= len(usual) < tensors
    assert usual == [False] * (len(usual) - 1) + [True]
    late, _ = all_reduces(LATE)
    assert late == [True] * len(usual)
    unfused, _ = all_reduces(UNFUSED)
    assert len(unfused) == tensors


def test_rows() -> None:
    found = {"computing": 1.0, "buffers": 8.0, ACP: 1.0, LATE: 1.2, UNFUSED: 1.1}
    assert [check.holds for check in rows.modelled(found)] == [True, False, True]


def test_turns_measure_every_variant() -> None:
    assert set(acp_steps.measured(1)) == {"computing", "buffers", *VARIANTS}
