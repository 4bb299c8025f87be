# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Mininet's prompt in a network that is up."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
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
    addresses = {host.name: host.ip for host in network.fabric.hosts}

    class Prompt(CLI):  # type: ignore[misc]
        def default(self, line: str) -> None:
            """A command of a host. Mininet would ask ifconfig for addresses, which many machines do not have."""
            super().default(with_addresses(line, addresses))

    with _interrupting_commands():
        Prompt(network.mininet)


def with_addresses(line: str, addresses: Mapping[str, str]) -> str:
    """The line with addresses in the place of hosts' names, but for the first one, which says where it runs.

    Example: `h1 ping h2` becomes `h1 ping 10.0.0.2`.
    """
    first, *rest = line.split(" ")
    return " ".join([first, *(addresses.get(word, word) for word in rest)])


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
