# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of codecs: CodecError and its kinds for refused input, StageError for misuse. Retrying does not help."""

from __future__ import annotations


class CodecError(ValueError):
    """A codec refuses its input. The text names the value and the rule."""


class TableError(CodecError):
    """No strictly increasing table has these parameters."""


class NonFiniteError(CodecError):
    """A gradient has NaN or Inf. Raised before anything is sent."""

    def __init__(self, nans: int, infinities: int, first_index: int, where: str) -> None:
        self.nans = nans
        self.infinities = infinities
        self.first_index = first_index
        super().__init__(
            f"{where} has {nans + infinities} non-finite values ({nans} NaN, {infinities} Inf), "
            f"the first at index {first_index}: every value must be finite"
        )


class NormRangeError(CodecError):
    """A block's L2 norm is too large for float32 arithmetic on its rotation."""


class CountError(CodecError):
    """Counts of contributors do not fit the chunks, or exceed what the table's sums can hold."""


class SumRangeError(CodecError):
    """A received sum is above granularity x contributors, so it cannot come from that many workers."""


class FeedbackShapeError(CodecError):
    """A residual does not have the shape of its gradient."""


class StageError(RuntimeError):
    """A step of a codec round was called out of order: a bug of the caller."""
