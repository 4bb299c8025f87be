# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Throughput of an all-reduce over one spine and over two, and how evenly two spines share the load.

The hosts' links are several times faster than those to the spines, which therefore limit the throughput.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire_lab.bench.exchanges import run_workers
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system.interface_counters import link_bytes

_WORKER: Final = "sumwire_lab.bench.allreduce_worker"
# Enough that what ranks tell each other by TCP, through the first spine, is a hundredth of it.
VALUES: Final = 2_500_000
HOST_MBIT: Final = 50.0
TRUNK_MBIT: Final = 8.0
WORKERS: Final = 4
# How slots are spread over two spines (slot, hash), and one spine for comparison.
ONE, SLOT, HASH = "one spine", "slot", "hash"
WAYS: Final = (ONE, SLOT, HASH)


@dataclass(frozen=True)
class Spread:
    """``seconds`` of one all-reduce (the slowest worker's, median of the repeats), its ``values_per_s``, and each
    spine's share of the bytes sent up."""

    way: str
    seconds: float
    values_per_s: float
    shares: list[float]


def run_spines(results: Path, say: Say, ways: Sequence[str] = WAYS, switch: str = "soft") -> dict[str, Spread]:
    """Measure each way. Raises LabError."""
    require_tools()
    folder = new_folder(results, latest=False)
    done = {}
    with interruptible():
        for way in ways:
            done[way] = _measure(way, switch, folder / way.replace(" ", "-"))
            shares = ", ".join(f"{share:.2%}" for share in done[way].shares)
            say(f"{way}: {done[way].seconds:.3f} s for {VALUES} values; bytes up: {shares}")
    (folder / "spines.json").write_text(json.dumps({way: asdict(one) for way, one in done.items()}) + "\n")
    return done


def jobs(fabric: Fabric, way: str) -> list[dict[str, Any]]:
    """The training job, with the spraying of ``way``."""
    return [entry | ({} if way == ONE else {"spray": way}) for entry in control_plane.training_job(fabric)]


def _measure(way: str, switch: str, folder: Path) -> Spread:
    topology = "leaf-spine" if way == ONE else "leaf-spine2"
    link = LinkOptions(HOST_MBIT, trunk_mbit=TRUNK_MBIT)
    options = RunOptions(workers=WORKERS, topology=topology, switch=switch, link=link)
    with open_session(options, switches.choose(switch), folder, lambda fabric: jobs(fabric, way)) as session:
        before = _bytes_up(session)
        measured = run_workers(session, _WORKER, "thc", [VALUES])
        used = [now - then for now, then in zip(_bytes_up(session), before, strict=True)]
    repeats = zip(*(worker["sizes"][0]["seconds"] for worker in measured), strict=True)
    seconds = median(max(repeat) for repeat in repeats)
    return Spread(way, seconds, VALUES / seconds, [one / sum(used) for one in used])


def _bytes_up(session: Session) -> list[int]:
    """Bytes that the leaves have sent to each spine so far."""
    fabric = session.fabric
    spines = sorted({trunk.upper for trunk in fabric.trunks})
    return [sum(link_bytes(t.lower_interface).tx for t in fabric.trunks if t.upper == spine) for spine in spines]
