# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Converts the plan of a network to the controller's configuration and the job files, installs it, and reads
counters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import sumwire_controller
import yaml
from sumwire.systems.spec import SWITCH
from sumwire_protocol.constants import JUMBO_SLOTS
from sumwire_protocol.ops import JUMBO
from sumwire_protocol.tables import AUTO, DEFAULT_BITS, DEFAULT_P, UNIFORM

from sumwire_lab.network.fabric import Fabric
from sumwire_lab.options.priority_lanes import MARK_SHARE, LanedOptions
from sumwire_lab.options.priority_lanes import SLOTS as LANED_SLOTS
from sumwire_lab.options.recipes import RECIPES, SYSTEM_OPS, TABLED, Recipe
from sumwire_lab.options.run_options import JUMBO_MTU, TrainOptions

CONFIGURATION: Final = "controller.yaml"
# Of the job at a software aggregator.
SERVER_CONFIGURATION: Final = "server.yaml"
# P4Runtime address of a switch that is never contacted; the configuration requires one.
NO_SWITCH: Final = "127.0.0.1:1"
JOB: Final = "training"
JOB_ID: Final = 1
SLOTS: Final = 512
# Two jobs that exist only for malformed packets, see load/malformed.py.
ODD_ID: Final = 2
NARROW_ID: Final = 3
_SIDE_SLOTS: Final = 2
THC: Final = RECIPES["thc"]
TRAIN: Final = TrainOptions()


def ops_for(fabric: Fabric, *, blind: bool = False) -> list[str]:
    """Return every op of the systems that have room for this network's workers, so that one job serves every system."""
    workers = len(fabric.hosts)
    below = max((fabric.stands_for(trunk.lower) for trunk in fabric.trunks), default=0)
    ops = (*SYSTEM_OPS, *((JUMBO,) if _takes_long_packets(fabric) and not blind else ()))
    return [op.name for op in ops if workers <= op.workers_max and below <= op.workers_below_max]


def _takes_long_packets(fabric: Fabric) -> bool:
    """Return whether packets of 8192 values fit the links; a server's software sums short ones alone."""
    return fabric.link.mtu >= JUMBO_MTU and fabric.server is None


def job(fabric: Fabric, name: str, number: int, ops: list[str], *, base: int, count: int) -> dict[str, Any]:
    """Return a job of all hosts in the controller's configuration."""
    names = [host.name for host in fabric.hosts]
    slots = {"base": base, "count": count}
    entry: dict[str, Any] = {"name": name, "id": number, "ops": ops, "workers": names, "slots": slots}
    if "thc" in ops:
        entry["thc"] = {"table": AUTO}
    return entry


def thc_table(recipe: Recipe, train: TrainOptions) -> dict[str, Any]:
    """Return the section `thc` of a recipe's job."""
    usual: dict[str, Any] = {"bits": DEFAULT_BITS, "p": DEFAULT_P, "table": UNIFORM if recipe.uniform else AUTO}
    return usual | {name: train.system[name] for name in TABLED if name in train.system}


def bounded_job(fabric: Fabric, options: LanedOptions, recipe: Recipe, train: TrainOptions) -> list[dict[str, Any]]:
    """Return the job of a system with a quorum and without lanes."""
    [entry] = training_job(fabric, recipe, train=train)
    return [entry | ({} if options.quorum is None else {"quorum": options.quorum})]


def laned_job(
    fabric: Fabric, options: LanedOptions, recipe: Recipe, train: TrainOptions = TRAIN
) -> list[dict[str, Any]]:
    """Return the job of a system with priority lanes. What is cut or lost on purpose are short packets."""
    long_packets = _takes_long_packets(fabric) and not options.trims and options.degrade is None
    ops = [*recipe.ops[SWITCH], *([JUMBO.name] if long_packets else [])]
    entry = job(fabric, JOB, JOB_ID, ops, base=0, count=JUMBO_SLOTS if long_packets else LANED_SLOTS)
    return [entry | {"thc": thc_table(recipe, train)} | options.job()]


def training_job(
    fabric: Fabric, recipe: Recipe = THC, *, blind: bool = False, train: TrainOptions = TRAIN
) -> list[dict[str, Any]]:
    """Return the job of a training run. ``blind``: hosts mask what they send."""
    entry = job(fabric, JOB, JOB_ID, ops_for(fabric, blind=blind), base=0, count=SLOTS)
    if "thc" in entry:
        entry["thc"] = thc_table(recipe, train)
    return [entry | ({"blind": True} if blind else {})]


def side_jobs(
    fabric: Fabric, recipe: Recipe = THC, *, blind: bool = False, train: TrainOptions = TRAIN
) -> list[dict[str, Any]]:
    """Return the training job, and the two jobs for malformed packets."""
    return [
        *training_job(fabric, recipe, blind=blind, train=train),
        job(fabric, "odd", ODD_ID, ["thc", "max32"], base=SLOTS, count=_SIDE_SLOTS),
        job(fabric, "narrow", NARROW_ID, ["thc"], base=SLOTS + _SIDE_SLOTS, count=_SIDE_SLOTS),
    ]


def configuration(
    fabric: Fabric, grpc: Mapping[str, str], jobs: list[dict[str, Any]], queues: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the controller's configuration: forwarding to every host, these jobs, and virtual queues if there are any.

    `grpc`: P4Runtime address of each switch. The result has the controller's short form for one switch, and its
    topology form for several.
    """
    more = {"queues": list(queues)} if queues else {}
    if len(fabric.switches) > 1:
        return _tree(fabric, grpc, jobs) | more
    switch, hosts = fabric.switches[0], fabric.limited_hosts
    return {
        "switch": {"name": switch.name, "grpc": grpc[switch.name], "device_id": switch.device_id},
        "aggregator": {"ip": switch.aggregator_ip, "mac": switch.aggregator_mac},
        "ports": [host.port for host in hosts],
        "workers": [{"name": h.name, "ip": h.ip, "mac": h.mac, "port": h.port} for h in hosts],
        "jobs": jobs,
        **more,
    }


def _tree(fabric: Fabric, grpc: Mapping[str, str], jobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "switches": [
            {
                "name": s.name,
                "grpc": grpc[s.name],
                "device_id": s.device_id,
                "aggregator": {"ip": s.aggregator_ip, "mac": s.aggregator_mac},
            }
            for s in fabric.switches
        ],
        "links": [
            {"from": t.lower, "from_port": t.lower_port, "to": t.upper, "to_port": t.upper_port} for t in fabric.trunks
        ],
        "hosts": [{"name": h.name, "ip": h.ip, "mac": h.mac, "switch": h.switch, "port": h.port} for h in fabric.hosts],
        "jobs": jobs,
    }


def install(
    fabric: Fabric,
    grpc: Mapping[str, str],
    folder: Path,
    jobs: list[dict[str, Any]],
    queues: Sequence[dict[str, Any]] = (),
) -> dict[str, Path]:
    """Load program and entries into the switches, which are the lab's own: jobs that have run may change.

    Returns the job files by job name; `folder` keeps them all.
    """
    config = _load(configuration(fabric, grpc, jobs, queues), folder / CONFIGURATION)
    if isinstance(config, sumwire_controller.Config):
        sumwire_controller.apply(config, force=True)
    else:
        sumwire_controller.apply_topology(config, force=True)
    return _write_jobs(config, folder, jobs)


def describe(fabric: Fabric, folder: Path, jobs: list[dict[str, Any]]) -> dict[str, Path]:
    """Write only the job files, for a software aggregator instead of a switch. The controller's rules apply."""
    nobody = {switch.name: NO_SWITCH for switch in fabric.switches}
    entry = configuration(fabric, nobody, jobs)
    if fabric.server is not None:
        entry["aggregator"] = {"ip": fabric.server.ip, "mac": fabric.server.mac}
        entry["workers"] = [worker for worker in entry["workers"] if worker["ip"] != fabric.server.ip]
    return _write_jobs(_load(entry, folder / SERVER_CONFIGURATION), folder, jobs)


def _load(entry: dict[str, Any], path: Path) -> Any:
    path.write_text(yaml.safe_dump(entry, sort_keys=False))
    return sumwire_controller.load_any(path)


def _write_jobs(config: Any, folder: Path, jobs: list[dict[str, Any]]) -> dict[str, Path]:
    return {entry["name"]: _write_job(config, entry["name"], folder) for entry in jobs}


def _write_job(config: Any, name: str, folder: Path) -> Path:
    path = folder / ("job.json" if name == JOB else f"job-{name}.json")
    path.write_text(json.dumps(sumwire_controller.job_description(config, name), indent=1) + "\n")
    return path


def queue_decisions(folder: Path, *, tagged: bool | None = None) -> dict[tuple[int, int, str], int]:
    """Return packets by port, drop class and decision (pass, mark, drop, trim) of the virtual queues, read from the
    switches that were installed from `folder`. Ports with the same number on several switches are added up.

    `tagged`: True for packets with a priority only, False for those without; None for both.
    """
    config = sumwire_controller.load_any(folder / CONFIGURATION)
    configs = [config] if isinstance(config, sumwire_controller.Config) else sumwire_controller.configs_of(config)
    told = sumwire_controller.read_all_status(configs)
    decisions: dict[tuple[int, int, str], int] = {}
    for queue in (queue for status in told for queue in status.queues if tagged in (None, queue.tagged)):
        key = (queue.port, queue.drop_class, queue.decision)
        decisions[key] = decisions.get(key, 0) + queue.packets
    return decisions


def counters(folder: Path) -> dict[str, dict[str, int]]:
    """Return packets by verdict and by reject reason, read from the switch that was installed from `folder`."""
    status = sumwire_controller.read_status(sumwire_controller.load_config(folder / CONFIGURATION))
    return {
        "verdicts": {name: count.packets for name, count in status.verdicts.items()},
        "rejects": {name: count.packets for name, count in status.rejects.items()},
    }


# Thresholds of a virtual queue as shares of the link's real queue: for dropping classes 3, 2, 1 and 0, and for dropping
# everything. The real queue, which knows no classes, must not fill before the virtual one.
_DROP: Final = (1 / 4, 1 / 2, 5 / 8, 3 / 4)
_DROP_ALL: Final = 7 / 8


def virtual_queues(fabric: Fabric, *, drops: bool = True, trims: bool = False) -> list[dict[str, Any]]:
    """Return the controller's entry for each limited port of the P4 switches, drained at the link's rate.

    `drops`: whether packets are dropped by their class; otherwise all are kept until the queue is full. `trims`:
    whether contributions of THC are cut instead of being dropped.
    """
    ports = [(h.switch, h.port, fabric.link_of(h)) for h in fabric.limited_hosts]
    ports += [(t.lower, t.lower_port, fabric.trunk_link(t)) for t in fabric.trunks]
    ports += [(t.upper, t.upper_port, fabric.trunk_link(t)) for t in fabric.trunks]
    several = len(fabric.switches) > 1
    return [
        {
            **({"switch": switch} if several else {}),
            "port": port,
            "rate_mbit": link.mbit,
            "trim": trims,
            **thresholds(link.queue_packets * link.mtu, drops=drops),
        }
        for switch, port, link in sorted(ports, key=lambda one: one[:2])
    ]


def thresholds(queue_bytes: int, *, drops: bool = True) -> dict[str, Any]:
    """Return thresholds of a virtual queue, for a link whose real queue holds `queue_bytes`."""
    return {
        "mark_bytes": int(MARK_SHARE * queue_bytes),
        "drop_bytes": [int((share if drops else _DROP_ALL) * queue_bytes) for share in _DROP],
        "drop_all_bytes": int(_DROP_ALL * queue_bytes),
    }


def no_queues(fabric: Fabric) -> list[dict[str, Any]]:
    """Return no virtual queues, for systems whose packets have no tags."""
    return []


def by_class(decisions: Mapping[tuple[int, int, str], int]) -> dict[str, int]:
    """Packets of all ports, by class and decision as in `3 drop`. The class that is dropped first comes first."""
    found: dict[tuple[int, str], int] = {}
    for (_, drop_class, decision), packets in decisions.items():
        if decision != "pass":
            key = (-drop_class, decision)
            found[key] = found.get(key, 0) + packets
    return {f"{-negative} {decision}": found[negative, decision] for negative, decision in sorted(found)}
