# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A veth pair, one end in a network namespace of its own, with segmentation offloads on or off."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CLONE_NEWNET = 0x40000000
_OFFLOADS = ("tx", "rx", "sg", "tso", "gso", "gro")


@dataclass(frozen=True)
class Wire:
    """The far end is in ``namespace``. Addresses begin with ``prefix``; .1 to .32 are here, and .250 is there."""

    namespace: str
    prefix: str

    def mapping(self, mapping: dict[str, Any]) -> dict[str, Any]:
        """A job file with its addresses moved to the pair."""
        addresses = [
            {**entry, "ip": f"{self.prefix}.{1 + entry['worker']}", "aggregator": f"{self.prefix}.250"}
            for entry in mapping["addresses"]
        ]
        return {**mapping, "addresses": addresses}

    def there(self, make: Callable[[], Any]) -> Any:
        """What ``make`` makes in the namespace: sockets stay in it."""
        made: list[Any] = []

        def run() -> None:
            with Path(f"/run/netns/{self.namespace}").open("rb") as namespace:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(namespace.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(make())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return made[0]


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextmanager
def veth(*, offloads: bool) -> Iterator[Wire]:
    number = os.getpid() % 60000
    name, wire = f"tr{number}", Wire(f"trains{number}", f"10.{128 + number // 250 % 100}.{number % 250}")
    far = ("ip", "netns", "exec", wire.namespace)
    state = "on" if offloads else "off"
    _do("ip", "netns", "add", wire.namespace)
    try:
        _do("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p", "netns", wire.namespace)
        for there, end in (((), name), (far, f"{name}p")):
            _do(*there, "ethtool", "-K", end, *(word for offload in _OFFLOADS for word in (offload, state)))
            _do(*there, "ip", "link", "set", end, "up")
        for worker in range(1, 33):
            _do("ip", "address", "add", f"{wire.prefix}.{worker}/24", "dev", name)
        _do(*far, "ip", "address", "add", f"{wire.prefix}.250/24", "dev", f"{name}p")
        yield wire
    finally:
        subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
        _do("ip", "netns", "del", wire.namespace)
