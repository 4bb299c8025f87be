# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Two hosts send a third one more than its link can carry. Which packets does the switch drop?

All links have one rate. The switch's virtual queue drains slightly slower than the link, so that the link's real queue,
which knows no classes, stays empty.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.overload_receiver import READY
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system.processes import killed_after, wait_all
from sumwire_lab.system.readiness import wait_said

MBIT: Final = 20.0
LOAD: Final = 1.3
SECONDS: Final = 6.0
# Shares of the packets by drop class. The class that is dropped first must hold all that has to go: 1 - 1 / LOAD.
SHARES: Final = (0.25, 0.2, 0.2, 0.35)
# Drain rate of the virtual queue over the link's rate. Below 1, so that it fills before the real queue.
DRAIN: Final = 0.97
_SENDERS: Final = 2
_PORT: Final = 20_000
_DEADLINE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Overload:
    """Packets by drop class: sent, dropped and marked (counted by the switch), received. Also the packets lost in real
    queues, which do not count by class."""

    sent: list[int]
    dropped: list[int]
    marked: list[int]
    received: list[int]
    queue_drops: int

    @property
    def share_of_first(self) -> float:
        """Share of all drops that was in the class to drop first."""
        return self.dropped[-1] / max(1, sum(self.dropped))


def queues(fabric: Fabric) -> list[dict[str, Any]]:
    """The virtual queue of the receiver's link."""
    return [
        {
            "port": fabric.hosts[0].port,
            "rate_mbit": MBIT * DRAIN,
            "mark_bytes": 20_000,
            "drop_bytes": [10_000, 60_000, 80_000, 100_000],
            "drop_all_bytes": 120_000,
            "trim": False,
        }
    ]


def run_overload(switch: str, results: Path, say: Say) -> Overload:
    """Run the experiment with the switch `soft` or `bmv2`. Raises LabError."""
    require_tools()
    options = RunOptions(workers=1 + _SENDERS, switch=switch, link=LinkOptions(MBIT))
    folder = new_folder(results, latest=False)
    kind = switches.choose(switch)
    with interruptible(), open_session(options, kind, folder, control_plane.training_job, queues) as session:
        sent, received = _offer(session)
        decisions = control_plane.queue_decisions(folder)
        drops = session.network.queue_drops()
    outcome = Overload(sent, _by_class(decisions, "drop"), _by_class(decisions, "mark"), received, drops)
    (folder / "overload.json").write_text(json.dumps(asdict(outcome)) + "\n")
    say(f"sent {sent}, dropped {outcome.dropped}, received {received} (classes 0 to 3)")
    return outcome


def _by_class(decisions: dict[tuple[int, int, str], int], decision: str) -> list[int]:
    return [
        sum(n for (_, drop_class, made), n in decisions.items() if (drop_class, made) == (one, decision))
        for one in range(len(SHARES))
    ]


def _offer(session: Session) -> tuple[list[int], list[int]]:
    receiver, *senders = session.fabric.hosts
    spec: dict[str, Any] = {
        "receiver": receiver.ip,
        "port": _PORT,
        "seconds": SECONDS,
        "mbit": MBIT * LOAD / _SENDERS,
        "shares": SHARES,
        "sent": [str(session.folder / f"sent{k}.json") for k in range(_SENDERS)],
        "received": str(session.folder / "received.json"),
    }
    path = session.folder / "spec.json"
    path.write_text(json.dumps(spec))
    with killed_after() as working:
        module = "sumwire_lab.experiments.overload_receiver"
        working["receiver"] = session.start("receiver", receiver, [sys.executable, "-m", module, str(path)])
        wait_said(working["receiver"], READY, session.log("receiver"))
        for k, host in enumerate(senders):
            command = [sys.executable, "-m", "sumwire_lab.experiments.overload_sender", str(path), str(k)]
            working[f"sender{k}"] = session.start(f"sender{k}", host, command)
        wait_all(working, session.serving(), session.logs(working), _DEADLINE_SECONDS, lambda: None)
    each = [json.loads(Path(name).read_text()) for name in spec["sent"]]
    received = json.loads((session.folder / "received.json").read_text())["classes"]
    if sum(received) == 0:
        raise LabError("no datagram reached the receiver")
    return [sum(counts) for counts in zip(*each, strict=True)], received
