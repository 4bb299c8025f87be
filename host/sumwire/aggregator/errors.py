# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of starting and running the aggregator."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from sumwire.errors import SumwireError, UsageError

# What to do about an address or port that cannot be had; by errno.
_CURES: Final[Mapping[int, str]] = {
    errno.EADDRINUSE: "end the program that has the port (ss -lunp 'sport = :{port}'), or give all jobs to one "
    "aggregator: sumwire-aggregator JOB.json ...",
    errno.EADDRNOTAVAIL: "no interface of this machine has the address (ip address): run sumwire-aggregator on the "
    "server that has it, or write one of this machine's addresses under `aggregator` in every worker's job file",
    errno.EACCES: "choose a port from 1024 on: sumwire-aggregator --listen {address}:PORT",
}
_OTHER_CURE: Final = "choose an address of this machine (ip address): sumwire-aggregator --listen ADDRESS"


class ListenError(UsageError):
    """The aggregator cannot listen at its address."""

    def __init__(self, address: str, port: int, error: OSError, *, named_in: str = "") -> None:
        where = f"{named_in}: " if named_in else ""
        cure = _CURES.get(error.errno or 0, _OTHER_CURE).format(address=address, port=port)
        super().__init__(f"{where}cannot listen at {address}:{port}: {error.strerror or error}: {cure}")


class ProcessError(SumwireError):
    """One of the aggregator's processes ended without being told to."""
