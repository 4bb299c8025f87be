# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Links that die and come back: one end of a host's link is set down, so that both ends lose their carrier."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from sumwire_lab.network.fabric import HostPlan
from sumwire_lab.network.topology import Network


@contextmanager
def link_down(network: Network, host: HostPlan, *, at_host: bool) -> Iterator[None]:
    """Within the block the host's link carries nothing. `at_host`: its own end is set down, otherwise the switch's."""
    _set(network, host, "down", at_host)
    try:
        yield
    finally:
        _set(network, host, "up", at_host)


def _set(network: Network, host: HostPlan, state: str, at_host: bool) -> None:
    interface = host.host_interface if at_host else host.switch_interface
    command = ["ip", "link", "set", interface, state]
    if at_host:
        network.run(host, command)
    else:
        subprocess.run(command, check=True, capture_output=True)
