# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A network of its own for the process group, beside the one that the experiment disturbs.

When a switch is dead, so is every packet through it. Training can only go on if the ranks reach each other in another
way, as over the management network of a cluster: one kernel bridge, and a second interface on every host.
"""

from __future__ import annotations

import subprocess
from typing import Final

from sumwire_lab.network.topology import no_ipv6_command
from sumwire_lab.run.session import Session

_ADDRESS: Final = "10.1.0.{}"
_MASTER_PORT: Final = 29500


class GroupNetwork:
    """Addresses and interfaces by rank. Its interfaces have the names of the session's, and go with them."""

    def __init__(self, session: Session) -> None:
        token, hosts = session.fabric.token, session.fabric.hosts
        bridge = f"{token}-grp"
        _ip("link", "add", bridge, "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
        subprocess.run(no_ipv6_command(bridge), check=True)
        _ip("link", "set", bridge, "up")
        self.addresses = [_ADDRESS.format(rank + 1) for rank in range(len(hosts))]
        self.interfaces = [f"{token}-g{rank + 1}" for rank in range(len(hosts))]
        for host, address, interface in zip(hosts, self.addresses, self.interfaces, strict=True):
            here = interface.replace("-g", "-b")
            inside = ("netns", str(session.network.pid(host)))
            _ip("link", "add", here, "type", "veth", "peer", "name", interface, *inside)
            _ip("link", "set", here, "master", bridge, "up")
            session.network.run(host, no_ipv6_command(interface))
            session.network.run(host, ["ip", "address", "add", f"{address}/24", "dev", interface])
            session.network.run(host, ["ip", "link", "set", interface, "up"])

    @property
    def master(self) -> str:
        """Where the ranks meet: at the first host."""
        return f"{self.addresses[0]}:{_MASTER_PORT}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
