# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in a codec: CodecError and its kinds for refused input, StageError for misuse. No retry helps."""

from __future__ import annotations


class CodecError(ValueError):
    """Input that a codec refuses; the text names the value and the rule."""


class TableError(CodecError):
    """Table parameters that no strictly increasing table can satisfy."""


class NonFiniteError(CodecError):
    """A gradient with NaN or Inf; raised before anything is sent."""

    def __init__(self, nans: int, infinities: int, first_index: int, where: str) -> None:
        self.nans = nans
        self.infinities = infinities
        self.first_index = first_index
        super().__init__(
            f"{where} has {nans + infinities} non-finite values ({nans} NaN, {infinities} Inf), "
            f"the first at index {first_index}: every value must be finite"
        )


class NormRangeError(CodecError):
    """A block whose L2 norm is too large for float32 arithmetic on its rotation."""


class CountError(CodecError):
    """Contributor counts that do not fit the chunks, or that the table's sums could not hold."""


class SumRangeError(CodecError):
    """A received sum above granularity x contributors: it cannot come from that many workers."""


class FeedbackShapeError(CodecError):
    """A residual that does not have the shape of its gradient."""


class StageError(RuntimeError):
    """A step of a codec round called out of order: a bug of the caller, not of its data."""
