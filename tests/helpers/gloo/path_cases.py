# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the tests of small tensors do. Each function runs on every rank and returns plain data."""

from __future__ import annotations

import logging
import os
from typing import Any
from unittest.mock import patch

import sumwire
import torch
from helpers.gloo.control_cases import text_of
from helpers.gloo.ddp_cases import open_job
from helpers.logs import logged
from sumwire.job.gloo import Fallback
from sumwire.job.tuning import Through, TuningTable, save_table, tuning_path


def tensor(rank: int, step: int, length: int) -> torch.Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(rank)) * (1 + step / 50)


def reductions(
    rank: int,
    mapping: dict[str, Any],
    lengths: list[int],
    options: dict[str, Any],
    cache: str = "",
    table: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A reduction of each length, with this rank's table in a cache of its own."""
    os.environ["XDG_CACHE_HOME"] = cache or "/nonexistent"
    means, residuals, error = [], [], ""
    with logged(level=logging.WARNING) as lines:
        try:
            with open_job(rank, mapping, **options) as job:
                for step, length in enumerate(lengths):
                    mean, residual = job.reduce(tensor(rank, step, length))
                    means.append(mean.tolist())
                    residuals.append(residual().tolist())
        except sumwire.SumwireError as raised:
            error = text_of(raised)
            return {"error": error}
    if table is not None:
        save_table(job.config, TuningTable.of(table))
    return {
        "means": means, "residuals": residuals, "error": error, "log": [line["message"] for line in lines],
        "stats": job.stats.as_dict(),
        "file": str(tuning_path(job.config)),
    }  # fmt: skip


def different_calls(
    rank: int, mapping: dict[str, Any], lengths: list[int], buckets: list[int], before: int, after: int
) -> str:
    """Equal calls, then a mean by the group of each rank's own length and bucket, then equal ones: the first error."""
    job = open_job(rank, mapping, through="group")
    try:
        for _ in range(before):
            job.reduce(torch.ones(10))
        job.reduce(torch.ones(lengths[rank]), buckets[rank])
        for _ in range(after):
            job.reduce(torch.ones(lengths[rank]))
    except sumwire.SumwireError as error:
        return text_of(error)
    finally:
        job.close(agree=False)
    return ""


def sums(rank: int, mapping: dict[str, Any], through: Through, length: int) -> list[float]:
    """A sum in place of ones and, at the end, of this rank's number: the first value and the last."""
    with open_job(rank, mapping, through=through) as job:
        x = torch.ones(length)
        x[-1] = rank
        sumwire.all_reduce(x, job, op="sum")
    return [float(x[0]), float(x[-1])]


def tuned(rank: int, mapping: dict[str, Any], cache: str, sizes: list[int]) -> dict[str, Any]:
    """What `Job.tune` has measured and kept, which calls were compared meanwhile, and what a later job goes by."""
    os.environ["XDG_CACHE_HOME"] = cache
    compare = patch.object(Fallback, "compare", autospec=True, side_effect=Fallback.compare)
    with open_job(rank, mapping) as job, compare as compared:
        table = job.tune(sizes)
        kept = tuning_path(job.config)
    with open_job(rank, mapping) as later:
        found = later._session.choice.table
    return {
        "table": table.content(), "kept": kept.exists(), "found": None if found is None else found.content(),
        "compared": [each.args[1] for each in compared.call_args_list],
    }  # fmt: skip


def until_returned(rank: int, mapping: dict[str, Any], after: int, length: int, group: bool) -> dict[str, Any]:
    """Reductions of one length until ``after`` have been made since the return to the switch. With ``group`` every
    second one has a length that goes by the group by choice."""
    means: list[float] = []
    changes: list[Any] = []
    with open_job(rank, mapping) as job:
        if group:
            job._session.choice = type(job._session.choice)(
                "auto", TuningTable.of({"thc": [[10, 2.0, 1.0], [length, 1.0, 2.0]]})
            )
        job.on_change(changes.append)
        while not (job.stats.returns and len(means) == changes[-1].operation + after):
            number = len(means)
            mean, _ = job.reduce(tensor(rank, number % 7, 10 if group and number % 2 else length))
            means.append(float(mean.double().square().sum()))
    return {"means": means, "changes": changes, "stats": job.stats.as_dict()}
