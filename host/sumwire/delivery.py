# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How much of a tensor may be missing: the public names of :mod:`sumwire.transport.options`."""

from sumwire.transport.options import (
    Delivery,
    Divisor,
)

__all__ = [
    "Delivery",
    "Divisor",
]
