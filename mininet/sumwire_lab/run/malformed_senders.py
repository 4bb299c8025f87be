# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends malformed packets to the switch during a training run, and reads how many the switch has counted by reason."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from nativelib import programs
from sumwire_protocol.watch.switch_names import REJECT_NAMES

from sumwire_lab.load.frames import Endpoints
from sumwire_lab.load.malformed import MalformedSpec, Sender
from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import HostPlan
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.session import Session
from sumwire_lab.system.processes import wait_all

# All hosts together: slow enough to leave the links to the training, fast enough to end before it does.
PACKETS_PER_SECOND: Final = 4000.0


class MalformedSenders:
    """One sending process per host. Does nothing for a run without malformed packets or without a P4 switch."""

    def __init__(self, session: Session, options: RunOptions) -> None:
        self._session = session
        self._count = 0 if session.job_file is None else options.malformed
        self._seed = options.train.seed
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._results: list[Path] = []

    def start(self) -> None:
        """Start the senders. Call it when the training is under way."""
        if self._count == 0:
            return
        hosts = self._session.fabric.hosts
        for rank, host in enumerate(hosts):
            name = f"malformed{rank}"
            spec = self._spec(host, rank, len(hosts))
            path = self._session.folder / f"{name}.spec.json"
            spec.save(path)
            self._results.append(Path(spec.result))
            command = programs.module("sumwire_lab.load.malformed", str(path))
            self._processes[name] = self._session.start(name, host, command)

    def finish(self, deadline_s: float) -> dict[str, Any]:
        """Wait for the senders. Returns what the system's summary gets: packets sent and counted, by reject reason."""
        if not self._processes:
            return {}
        ended = all(process.poll() is not None for process in self._processes.values())
        session = self._session
        wait_all(self._processes, session.serving(), session.logs(self._processes), deadline_s, lambda: None)
        sent: dict[str, int] = {}
        for path in self._results:
            for reason, count in json.loads(path.read_text()).items():
                name = REJECT_NAMES[int(reason)]
                sent[name] = sent.get(name, 0) + count
        counted = control_plane.counters(self._session.folder)["rejects"]
        return {"malformed": {"sent": sent, "counted": counted, "all_sent_during_training": ended}}

    def _spec(self, host: HostPlan, rank: int, hosts: int) -> MalformedSpec:
        switch = self._session.fabric.leaf_of(host)
        ends = Endpoints(host.mac, switch.aggregator_mac, host.ip, switch.aggregator_ip)
        return MalformedSpec(
            interface=host.host_interface,
            sender=Sender(ends, rank, hosts),
            count=self._count // hosts + (rank < self._count % hosts),
            per_second=PACKETS_PER_SECOND / hosts,
            seed=self._seed * hosts + rank,
            result=str(self._session.folder / f"malformed{rank}.sent.json"),
        )
