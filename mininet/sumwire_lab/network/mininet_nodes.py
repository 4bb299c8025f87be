# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Switch nodes of Mininet. The only module that cannot be imported without Mininet."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mininet.node import Switch
from nativelib import programs

from sumwire_lab.network import delay
from sumwire_lab.network.fabric import Fabric, SwitchPlan
from sumwire_lab.network.switches import P4Process
from sumwire_lab.network.topology import RelayFactory, SwitchFactory, no_ipv6_command, run_in
from sumwire_lab.system.leftovers import Ledger
from sumwire_lab.system.processes import stop_process, wait_said


class BridgeNode(Switch):  # type: ignore[misc]
    """A kernel bridge. It forwards at almost no cost, which is best for the baseline."""

    def __init__(self, name: str, bridge: str = "", leave_out: frozenset[str] = frozenset(), **params: Any) -> None:
        super().__init__(name, **{**params, "dpid": "1", "inNamespace": False})
        self.bridge = bridge
        self._leave_out = leave_out | {"lo"}

    def start(self, controllers: object) -> None:
        run_in(self, ["ip", "link", "add", self.bridge, "type", "bridge", "stp_state", "0", "mcast_snooping", "0"])
        run_in(self, no_ipv6_command(self.bridge))
        for interface in self.intfList():
            if interface.name not in self._leave_out:
                run_in(self, ["ip", "link", "set", interface.name, "master", self.bridge])
        run_in(self, ["ip", "link", "set", self.bridge, "up"])

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        # It may not exist if the run was interrupted early.
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True, check=False)
        super().stop(deleteIntfs)


class P4Node(Switch):  # type: ignore[misc]
    """A Mininet node for the process of a P4 switch."""

    def __init__(self, name: str, p4: P4Process | None = None, **params: Any) -> None:
        if p4 is None:
            raise TypeError("P4Node needs its process: addSwitch(..., p4=P4Process(...))")
        super().__init__(name, **{**params, "dpid": "1", "inNamespace": False})
        self._p4 = p4

    @property
    def grpc(self) -> str:
        return self._p4.grpc

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self._p4.process

    def start(self, controllers: object) -> None:
        self._p4.start(sorted((self.ports[i], i.name) for i in self.intfList() if i.name != "lo"))

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        self._p4.stop()
        super().stop(deleteIntfs)


class DelayNode(Switch):  # type: ignore[misc]
    """The process in the middle of all links that have a delay. Its ports are pairs: ports 1 and 2 belong to one link,
    and so on."""

    def __init__(
        self, name: str, delay_s: float = 0.0, log: Path | None = None, ledger: Ledger | None = None, **params: Any
    ) -> None:
        super().__init__(name, **{**params, "dpid": "1", "inNamespace": False})
        self.process: subprocess.Popen[bytes] | None = None
        self._delay_s, self._log, self._ledger = delay_s, log, ledger

    def start(self, controllers: object) -> None:
        assert self._log is not None
        assert self._ledger is not None
        names = [i.name for _, i in sorted((self.ports[i], i) for i in self.intfList() if i.name != "lo")]
        pairs = [f"{one}={other}" for one, other in zip(names[::2], names[1::2], strict=True)]
        command = programs.module("sumwire_lab.network.delay", f"{self._delay_s}", *pairs)
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._ledger.add_process(self.process.pid)
        wait_said(self.process, delay.READY, self._log)

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        if self.process is not None:
            stop_process(self.process)
        super().stop(deleteIntfs)


def delaying(delay_s: float, log: Path, ledger: Ledger) -> RelayFactory:
    """Return a factory of relays that delay packets on all limited links."""

    def make(net: Any, fabric: Fabric) -> Any:
        return net.addSwitch(f"{fabric.token}-delay", cls=DelayNode, delay_s=delay_s, log=log, ledger=ledger)

    return make


def bridge() -> SwitchFactory:
    """Return a factory of kernel bridges, for the baseline."""

    def make(net: Any, fabric: Fabric, switch: SwitchPlan) -> Any:
        spare = frozenset(name for t in fabric.trunks if t.spare for name in (t.lower_interface, t.upper_interface))
        name = f"{fabric.token}-br{switch.device_id}"
        return net.addSwitch(switch.name, cls=BridgeNode, bridge=name, leave_out=spare)

    return make


def p4(processes: Mapping[str, P4Process]) -> SwitchFactory:
    """Return a factory of P4 switches. `processes`: by switch name."""

    def make(net: Any, fabric: Fabric, switch: SwitchPlan) -> Any:
        return net.addSwitch(switch.name, cls=P4Node, p4=processes[switch.name])

    return make
