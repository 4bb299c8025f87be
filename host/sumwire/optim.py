# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizers that communicate: the public names of :mod:`sumwire.training.optim` and :mod:`sumwire.training.outer`."""

from sumwire.training.optim import (
    GradientOptimizer,
    GradientSync,
    Marsit,
)
from sumwire.training.outer import Outer

__all__ = [
    "GradientOptimizer",
    "GradientSync",
    "Marsit",
    "Outer",
]
