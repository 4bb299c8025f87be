# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a job asks of the way its tensors travel (:mod:`sumwire.transport.delivery`)."""

from sumwire.transport.delivery import (
    Delivery,
    Divisor,
)

__all__ = [
    "Delivery",
    "Divisor",
]
