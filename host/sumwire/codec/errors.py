# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of codecs: CodecError and its kinds for refused input, StageError for misuse. Retrying does not help."""

from __future__ import annotations


class CodecError(ValueError):
    """A codec refuses its input. The text names the value and the rule."""


class TableError(CodecError):
    """No table has these parameters."""


class NormRangeError(CodecError):
    """The workers have agreed on a norm that none of them can have sent."""


class CountError(CodecError):
    """Counts of contributors do not fit the chunks, or exceed what the table's sums can hold."""


class SumRangeError(CodecError):
    """A received sum is above granularity x contributors, so it cannot come from that many workers."""


class FeedbackShapeError(CodecError):
    """A residual does not have the shape of its gradient."""


class StageError(RuntimeError):
    """A step of a codec round was called out of order: a bug of the caller."""
