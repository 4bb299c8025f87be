# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Computes the bytes and buffers that ACP-SGD sends for well-known models, from the models' shapes."""

from __future__ import annotations

from typing import Any, Final

from sumwire.lowrank import shapes

from sumwire_lab.bench.benchmark import PageTable, Presentation, Row, Rows, Suite
from sumwire_lab.study.study import Study

HOW: Final = (
    "Computed from the shapes of the models' parameters, which are part of the library. ACP-SGD sends each "
    "matrix as one of two thin factors, P and Q in turn, and 1-D tensors uncompressed in every step. Buffers "
    "are filled up to a threshold: 25 MB of uncompressed gradient, scaled down by the compression ratio. 1 MB"
    " is 2^20 bytes."
)


def measure(case: Row) -> dict[str, Any]:
    """Return the bytes of float32, and the number of buffers for a step's tensors. `ratio`: uncompressed bytes over the
    mean of a P and a Q step. It is computed; nothing is timed or downloaded."""
    found = shapes.sizes(case["model"], case["rank"])
    return {
        **case,
        "parameters": found.parameters,
        "tensors": found.tensors,
        "matrices": found.matrices,
        "dense_bytes": found.dense_bytes,
        "p_bytes": found.p_bytes,
        "q_bytes": found.q_bytes,
        "p_threshold_bytes": found.p_threshold,
        "q_threshold_bytes": found.q_threshold,
        "p_buffers": found.p_groups,
        "q_buffers": found.q_groups,
        "dense_buffers": found.dense_groups,
        "ratio": found.ratio,
    }


def present(rows: Rows) -> Presentation:
    """Present the sizes as one table."""
    return Presentation(tables=(PageTable("Bytes and buffers of one step", _HEAD, tuple(map(_cells, rows))),))


CASES: Final = [{"model": model, "rank": rank} for model, rank in shapes.RANKS.items()]
SIZES: Final = Suite(
    "sizes",
    "Compressed sizes of large models",
    "How many bytes does a worker send a step for models that would not fit this machine?",
    HOW,
    lambda _: Study("sizes", "bytes and buffers of a step", CASES, measure),
    present,
)

_HEAD: Final = (
    *("model", "rank", "parameters, million", "tensors, matrices", "gradient, MB", "P step, MB", "Q step, MB"),
    *("times smaller", "buffers P, Q", "buffers uncompressed"),
)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["model"],
        str(row["rank"]),
        f"{row['parameters'] / 1e6:.2f}",
        f"{row['tensors']}, {row['matrices']}",
        _megabytes(row["dense_bytes"], 2),
        _megabytes(row["p_bytes"], 3),
        _megabytes(row["q_bytes"], 3),
        f"{row['ratio']:.1f}",
        f"{row['p_buffers']}, {row['q_buffers']}",
        str(row["dense_buffers"]),
    )


def _megabytes(count: float, digits: int) -> str:
    return f"{count / shapes.MEGABYTE:.{digits}f}"
