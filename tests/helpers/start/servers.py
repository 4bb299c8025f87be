# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Servers as network namespaces."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


def ip(*words: str) -> None:
    """The command of iproute2."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def servers(count: int) -> Iterator[list[str]]:
    """Names of network namespaces with the addresses 10.0.0.1, 10.0.0.2 ... at one bridge."""
    names = [f"sw{os.getpid()}-{number}" for number in range(count + 1)]
    with ExitStack() as stack:
        for name in names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            ip("-n", name, "link", "set", "lo", "up")
        hub, *hosts = names
        ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", hub, "link", "set", "bridge", "up")
        for number, host in enumerate(hosts, 1):
            port = f"port{number}"
            ip("link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", port, "netns", hub)
            ip("-n", host, "address", "add", f"10.0.0.{number}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
            ip("-n", hub, "link", "set", port, "master", "bridge", "up")
        yield hosts
