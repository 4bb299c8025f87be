# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizers that communicate: the public names of :mod:`sumwire.training.optim`."""

from sumwire.training.optim import (
    GradientOptimizer,
    GradientSync,
    Marsit,
)

__all__ = [
    "GradientOptimizer",
    "GradientSync",
    "Marsit",
]
