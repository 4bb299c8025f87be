# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Mininet's prompt in a network that is up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from sumwire_lab.network.topology import Network

_TERMINATED: Final = 143


def prompt(network: Network) -> None:
    """Read commands, as `h1 ping h2`, until `exit` or the end of the input. Ctrl-C ends a command, not the lab."""
    from mininet.cli import CLI
    from mininet.log import lg, setLogLevel

    setLogLevel("output")
    # A library may have made a root logger, which would say everything once more.
    lg.propagate = False
    with _interrupting_commands():
        CLI(network.mininet)


@contextmanager
def _interrupting_commands() -> Iterator[None]:
    """Within the block Ctrl-C is Mininet's, and SIGTERM ends the program with everything in order."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(_TERMINATED)

    before: dict[int, Any] = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, end),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
