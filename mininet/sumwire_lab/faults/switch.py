# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The switch, or the software aggregator, of a running session: killed, started again empty, applied again."""

from __future__ import annotations

import os
import signal
import subprocess

import sumwire_controller

from sumwire_lab.errors import LabError
from sumwire_lab.network import control_plane
from sumwire_lab.run.session import Session
from sumwire_lab.system.processes import family


class SwitchFault:
    """Kills and restores what aggregates in a session with one switch or a software aggregator."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._starts = 1

    @property
    def programmed(self) -> bool:
        """Whether it starts empty, and has to be applied. A software aggregator is given its job files instead."""
        return self._session.aggregator is None

    def kill(self) -> None:
        """Kill it with all its processes, as a power failure would."""
        process = self._process()
        for pid in family(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def start(self) -> None:
        """Start it again, and return when it accepts connections. A P4 switch has no program yet."""
        session = self._session
        self._starts += 1
        if session.aggregator is None:
            (node,) = session.network.switches.values()
            node.start(None)
        else:
            session.start_aggregator(f"aggregator{self._starts}")

    def apply(self) -> None:
        """Load program and entries from the session's configuration, as `sumwire-controller apply` does."""
        if self.programmed:
            config = sumwire_controller.load_config(self._session.folder / control_plane.CONFIGURATION)
            sumwire_controller.apply(config)

    def _process(self) -> subprocess.Popen[bytes]:
        serving = list(self._session.serving().values())
        if len(serving) != 1:
            raise LabError(f"{len(serving)} switches serve this session, not one")
        return serving[0]
