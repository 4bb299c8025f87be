# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What puts a run's switches into a Mininet network: kernel bridges, or P4 switches with their processes.

Mininet's own classes are imported only when a network is made, so that plans work without Mininet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sumwire_lab.network.fabric import Fabric, SwitchPlan
from sumwire_lab.network.switches import P4Process
from sumwire_lab.network.topology import SwitchFactory


def bridge() -> SwitchFactory:
    """A factory of kernel bridges, for the baseline."""

    from sumwire_lab.network.mininet_nodes import BridgeNode

    def make(net: Any, fabric: Fabric, switch: SwitchPlan) -> Any:
        spare = frozenset(name for t in fabric.trunks if t.spare for name in (t.lower_interface, t.upper_interface))
        name = f"{fabric.token}-br{switch.device_id}"
        return net.addSwitch(switch.name, cls=BridgeNode, bridge=name, leave_out=spare)

    return make


def p4(processes: Mapping[str, P4Process]) -> SwitchFactory:
    """A factory of P4 switches. `processes`: by switch name."""

    from sumwire_lab.network.mininet_nodes import P4Node

    def make(net: Any, fabric: Fabric, switch: SwitchPlan) -> Any:
        return net.addSwitch(switch.name, cls=P4Node, p4=processes[switch.name])

    return make
