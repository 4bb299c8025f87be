# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures two spine switches: their throughput against one, how evenly they share the load, and the effect of a dead
one.

The hosts' links are several times faster than those to the spines, which therefore limit the throughput. The failover
kills a spine during operations, and measures how long workers stall and whether all results are equal.
"""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import sumwire_controller
import torch
from sumwire_controller.deploy.watch import Watch, WatchEvent

from sumwire_lab.bench.benchmark import network_experiment, write_record
from sumwire_lab.bench.exchange_worker import exchanges
from sumwire_lab.errors import LabError
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank
from sumwire_lab.system.counters import link_bytes

# Enough that what ranks tell each other by TCP, through the first spine, is a hundredth of it.
SPREAD_VALUES: Final = 2_500_000
HOST_MBIT: Final = 50.0
TRUNK_MBIT: Final = 8.0
WORKERS: Final = 4
# How slots are spread over two spines (slot, hash), and one spine for comparison.
ONE, SLOT, HASH = "one spine", "slot", "hash"
WAYS: Final = (ONE, SLOT, HASH)


@dataclass(frozen=True)
class Spread:
    """The result with both spines. ``seconds`` of one all-reduce (the slowest worker's, median of the repeats), its
    ``values_per_s``, and each spine's share of the bytes sent up."""

    way: str
    seconds: float
    values_per_s: float
    shares: list[float]


def run_spines(results: Path, say: Say, ways: Sequence[str] = WAYS, switch: str = "soft") -> dict[str, Spread]:
    """Measure each way. Raises LabError."""
    done = {}
    with network_experiment(results) as folder:
        for way in ways:
            done[way] = _measure(way, switch, folder / way.replace(" ", "-"))
            shares = ", ".join(f"{share:.2%}" for share in done[way].shares)
            say(f"{way}: {done[way].seconds:.3f} s for {SPREAD_VALUES} values; bytes up: {shares}")
        write_record(done, folder, "spines")
    return done


def jobs(fabric: Fabric, way: str) -> list[dict[str, Any]]:
    """Return the training job, with the spraying of ``way``."""
    return [entry | ({} if way == ONE else {"spray": way}) for entry in control_plane.training_job(fabric)]


def _measure(way: str, switch: str, folder: Path) -> Spread:
    topology = "leaf-spine" if way == ONE else "leaf-spine2"
    link = LinkOptions(HOST_MBIT, trunk_mbit=TRUNK_MBIT)
    options = RunOptions(workers=WORKERS, topology=topology, switch=switch, link=link)
    with open_session(options, switches.choose(switch), folder, lambda fabric: jobs(fabric, way)) as session:
        before = _bytes_up(session)
        measured = exchanges(session, {"exchange": "all-reduce", "system": "thc", "sizes": [SPREAD_VALUES]})
        used = [now - then for now, then in zip(_bytes_up(session), before, strict=True)]
    repeats = zip(*(worker["sizes"][0]["seconds"] for worker in measured), strict=True)
    seconds = median(max(repeat) for repeat in repeats)
    return Spread(way, seconds, SPREAD_VALUES / seconds, [one / sum(used) for one in used])


def _bytes_up(session: Session) -> list[int]:
    """Bytes that the leaves have sent to each spine so far."""
    fabric = session.fabric
    spines = sorted({trunk.upper for trunk in fabric.trunks})
    return [sum(link_bytes(t.lower_interface).tx for t in fabric.trunks if t.upper == spine) for spine in spines]


def reduce_often(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """Worker: reduce tensors. Returns the seconds of each, a digest of all results, and the number of fall-backs."""
    digest, seconds = hashlib.sha256(), []
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(rank.number)
    with rank.job(fallback="never") as job, Path(spec["counts"][rank.number]).open("wb", buffering=0) as counts:
        for _ in range(spec["operations"]):
            tensor = torch.randn(spec["values"], generator=generator)
            began = time.perf_counter()
            mean, _residual = job.reduce(tensor)
            seconds.append(time.perf_counter() - began)
            digest.update(mean.numpy().tobytes())
            # One byte per operation, so that the experiment can see how far this worker is.
            counts.write(b".")
        fallbacks = job.stats.as_dict()["fallbacks"]
    return {"seconds": seconds, "digest": digest.hexdigest(), "fallbacks": fallbacks}


VALUES: Final = 50_000
OPERATIONS: Final = 60
# The spine is killed when the first worker has completed so many operations.
DIES_AFTER: Final = 20
_DEADLINE_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Failover:
    """The result of the failover. ``usual_s``: the median operation. ``stall_s``: how much longer the longest one took.
    ``left_out_s``: time until the leaves' tables no longer used the spine. ``digests``: those of all results, one per
    worker."""

    usual_s: float
    stall_s: float
    left_out_s: float
    digests: list[str]
    fallbacks: int

    @property
    def equal(self) -> bool:
        return len(set(self.digests)) == 1


def run_failover(results: Path, say: Say, switch: str = "soft") -> Failover:
    """Kill the second spine during the operations. Raises LabError."""
    link = LinkOptions(HOST_MBIT, trunk_mbit=TRUNK_MBIT)
    options = RunOptions(workers=WORKERS, topology="leaf-spine2", switch=switch, link=link)
    with (
        network_experiment(results) as folder,
        open_session(options, switches.choose(switch), folder, lambda fabric: jobs(fabric, SLOT)) as session,
    ):
        left_out_s, records = _work(session)
    # The first operation waits for processes that are still starting.
    seconds = [max(each) for each in zip(*(record["seconds"] for record in records), strict=True)][1:]
    usual = median(seconds)
    outcome = Failover(
        usual,
        max(seconds) - usual,
        left_out_s,
        [record["digest"] for record in records],
        sum(record["fallbacks"] for record in records),
    )
    write_record(outcome, folder, "failover")
    say(f"a dead spine: left out after {left_out_s:.3f} s, longest stall {outcome.stall_s:.3f} s")
    return outcome


def _work(session: Session) -> tuple[float, list[dict[str, Any]]]:
    folder = session.folder
    counts = [str(folder / f"count{rank}") for rank in range(len(session.fabric.hosts))]
    configs = sumwire_controller.configs_of(sumwire_controller.load_topology(folder / control_plane.CONFIGURATION))
    serving = session.serving()
    spine = serving.pop(session.fabric.label("spine2"))
    died, left_out = _Moment(), _Moment()

    def heard(event: WatchEvent) -> None:
        if event.kind == "moved":
            left_out.note()

    def tick() -> None:
        count = Path(counts[0])
        if not died.at and count.exists() and count.stat().st_size >= DIES_AFTER:
            died.note()
            spine.send_signal(signal.SIGKILL)

    with Watch(configs, say=heard):
        told = {"values": VALUES, "operations": OPERATIONS, "counts": counts}
        records = session.call(reduce_often, told, _DEADLINE_SECONDS, tick=tick, serving=serving)
    if not died.at or not left_out.at:
        raise LabError(f"the spine died: {bool(died.at)}, it was left out: {bool(left_out.at)}")
    return left_out.at - died.at, records


class _Moment:
    """The time at which something last happened; 0.0 before."""

    at = 0.0

    def note(self) -> None:
        self.at = time.monotonic()
