# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Communication hooks for DistributedDataParallel: the public names of :mod:`sumwire.training.ddp`."""

from sumwire.training.ddp import (
    DdpState,
    ddp_hook,
    local_hook,
)

__all__ = [
    "DdpState",
    "ddp_hook",
    "local_hook",
]
