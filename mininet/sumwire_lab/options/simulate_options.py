# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of a simulation, its own ones and those that it takes from the options of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Final

from commonlib.untrusted import shown
from sumwire.config import SLOTS_MIN
from sumwire.config.jobfile import DEFAULT_SLOTS
from sumwire_protocol import constants as p4

from sumwire_lab.errors import OptionError
from sumwire_lab.options.conditions import BACKGROUND_MAX
from sumwire_lab.options.fabric import BYTES_MOST, Fabric
from sumwire_lab.options.fields import Checked, Flag, Rule, between, flags_of, one_of, option
from sumwire_lab.options.layout import SHAPES, leaves_of
from sumwire_lab.options.recipes import parse
from sumwire_lab.options.run_options import AGGREGATOR, BUFFER_MB, RunOptions

PACKETS: Final = "packets"
FLOWS: Final = "flows"
ENGINES: Final = (PACKETS, FLOWS)
ORDERS: Final = ("fifo", "levels", "smallest")
CONTROLS: Final = ("cubic", "bbr", "dctcp", "pfabric", "ndp")
LAB_CORES: Final = 2
"""Cores of the machine that the lab's costs were measured on: all hosts and switches of a lab share them."""


@dataclass(frozen=True)
class SimulateOptions(Checked):
    """One simulation: the same steps of training with each system."""

    engine: str = option(
        PACKETS, "packets: every packet; flows: rounds and shares, for 100000 workers", rule=one_of(ENGINES)
    )
    systems: tuple[str, ...] = option(
        ("gloo", "thc"), "which, in this order; NAME@server: its packets are summed by a server", flag="systems"
    )
    model: str = option("bert-base", "what to train: a model of docs/simulate.md, or a task of the lab")
    batch: int | None = option(
        None, "samples of a worker and step", rule=between(1, 1_000_000), shown="default: the model's"
    )
    passes_s: float | None = option(
        None,
        "seconds of a step's two passes",
        rule=between(0, 10_000),
        shown="default: the model's, from public figures",
    )
    buffer_mb: float = option(BUFFER_MB, "size of DDP's buckets, in units of 2^20 bytes", rule=between(0, 1_000_000))
    rank: int = option(4, "rank of powersgd and acp", rule=between(1, 10_000))
    steps: int = option(1, "steps of training", rule=between(1, 10_000))
    slots: int = option(DEFAULT_SLOTS, "slots of the job", rule=between(SLOTS_MIN, 1 << 20))
    costs: str = option("none", "seconds of hosts and switches: none, gpu, soft, bmv2 or aggregator")
    cores: int = option(0, "cores that all hosts and switches share, 0: each has its own", rule=between(0, 10_000))
    slow: float = option(0.0, "deviation of the logarithm of a worker's computing time", rule=between(0, 2))
    control: str = option("cubic", "congestion control of flows between hosts", rule=one_of(CONTROLS))
    order: str = option("fifo", "order of packets in queues", rule=one_of(ORDERS))
    mark_bytes: int | None = option(
        None,
        "a packet behind more bytes is marked, for --limited and dctcp",
        rule=between(0, BYTES_MOST),
        shown="never",
    )
    trim: bool = option(False, "a packet that finds its queue full loses its payload, not its header")
    lanes: int = option(
        1, "lanes of the job: front layers' packets have slots of their own and come first", rule=between(1, 8)
    )
    early_forward: bool = option(False, "a layer's next forward pass waits for its own bucket alone")
    limited: bool = option(False, "marks and round trips limit windows, as in jobs with a delivery option")
    background: float = option(
        0.0,
        "share of each host's link that flows from it to the next host ask for, as in the lab",
        rule=between(0, BACKGROUND_MAX, f"a share of a link, 0 to {BACKGROUND_MAX:g}"),
    )
    seed: int = option(1, "of losses and slow workers", rule=Rule(
        lambda seed: 0 <= seed < 1 << 63, "must be 0 to 2^63 - 1"
    ))  # fmt: skip
    fabric: Fabric = field(default_factory=Fabric)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slots % self.lanes or self.slots // self.lanes < SLOTS_MIN:
            rule = f"must divide slots={self.slots} into {SLOTS_MIN} or more each; give --slots 512, or other lanes"
            raise OptionError(f"lanes={self.lanes}: {rule}")
        if self.background and self.fabric.workers == 1:
            raise OptionError(
                f"background={self.background:g} with workers=1: there is no other host; give more workers"
            )
        if self.early_forward and self.steps == 1:
            raise OptionError("early-forward with steps=1: there is no next forward pass; give --steps 2 or more")
        if self.engine == FLOWS:
            self._refuse_what_flows_lack()
            if self.cores and self.costs == "none":
                rule = "in engine=flows cores share what --costs tell, and costs=none tell nothing"
                raise OptionError(f"cores={self.cores}: {rule}; give --costs soft, or --engine packets")
        elif wanted := _lacks(self):
            raise OptionError(f"control={self.control}: {wanted}")

    def _refuse_what_flows_lack(self) -> None:
        for flag in flags_of(SimulateOptions):
            name = flag.field.name
            if name in _OF_PACKETS and getattr(self, name) != flag.field.default:
                told = f"{flag.name}={getattr(self, name)}"
                raise OptionError(
                    f"{told}: engine=flows has no packets and no queues; take --engine packets, or leave it out"
                )


_OF_PACKETS: Final = ("control", "order", "mark_bytes", "trim", "lanes", "early_forward", "limited", "background")
"""Options that engine=flows does not know."""


def _lacks(options: SimulateOptions) -> str:
    """What queues must do for the congestion control, and do not."""
    if options.control == "dctcp" and options.mark_bytes is None:
        return "follows marks; give --mark-bytes too, as 97500"
    if options.control == "pfabric" and options.order != "smallest":
        return "wants queues in its order; give --order smallest too"
    if options.control == "ndp" and not (options.trim and options.order == "levels"):
        return "wants headers of packets that find no room, before all others; give --trim and --order levels too"
    return ""


@cache
def known() -> Mapping[str, Flag]:
    """Return the options of a simulation by their names on the command line."""
    return {flag.name: flag for flag in flags_of(SimulateOptions)}


_TAKEN: Final = frozenset({
    "bw", "trunk-bw", "queue", "delay", "topology", "switch", "task", "workers", "systems", "mtu", "loss", "buffer-mb",
    "steps", "seed", "deadline", "batch", "control", "rank", "background",
})  # fmt: skip
"""Options of `sumwire-lab run` that a simulation understands."""


def taken(name: str) -> bool:
    """Return whether a simulation understands an option of `run`."""
    return name in _TAKEN


def of_run(run: RunOptions) -> SimulateOptions:
    """Return the simulation of a run. Raises OptionError for a network that cannot be simulated."""
    if run.topology not in SHAPES:
        raise OptionError(f"topology={run.topology}: a simulation has {', '.join(SHAPES)}, or --levels of its own")
    link, switch = run.link, "soft" if run.switch == "auto" else run.switch
    frame = link.mtu + p4.ETHERNET_BYTES
    fabric = Fabric(
        workers=run.workers, levels=_levels(run.topology, run.workers), spines=_spines(run.topology),
        rate_bit_s=link.mbit * 1e6, trunk_bit_s=None if link.trunk_mbit is None else link.trunk_mbit * 1e6,
        delay_s=run.conditions.delay_ms / 1000, mtu=link.mtu, queue_bytes=link.queue_packets * frame,
        loss=run.conditions.loss,
    )  # fmt: skip
    at_server = switch == AGGREGATOR
    systems = tuple(f"{name}@server" if at_server and parse(name).switched else name for name in run.systems)
    return SimulateOptions(
        systems=systems, model=run.train.task, fabric=fabric, costs=switch, cores=LAB_CORES,
        rank=run.train.rank, seed=run.train.seed, control=link.control, background=run.conditions.background,
        steps=run.train.max_steps or 1,
        buffer_mb=BUFFER_MB if run.train.buffer_mb is None else run.train.buffer_mb,
    )  # fmt: skip


def _levels(topology: str, workers: int) -> tuple[int, ...]:
    """The counts below switches, from the hosts up. Workers fill leaves one after another."""
    leaves = len(leaves_of(topology))
    per_leaf = -(-workers // leaves)
    return {1: (workers,), 2: (per_leaf, 2), 4: (per_leaf, 2, 2)}[leaves]


def _spines(topology: str) -> int:
    return sum(name.startswith("spine") for name in SHAPES[topology]) or 1


def with_values(options: SimulateOptions, given: Mapping[str, Any]) -> SimulateOptions:
    """Return the options with these values, by their names on the command line. Raises OptionError."""
    own: dict[str, Any] = {}
    of_fabric: dict[str, Any] = {}
    for name, value in given.items():
        flag = known()[name]
        (of_fabric if flag.owner is Fabric else own)[flag.field.name] = _read(flag, value)
    if of_fabric:
        # A star of other workers than before has other levels.
        star = len(options.fabric.levels) == 1 and "levels" not in of_fabric
        fabric = {**{one.name: getattr(options.fabric, one.name) for one in fields(Fabric)}, **of_fabric}
        own["fabric"] = Fabric(**{**fabric, "levels": () if star else fabric["levels"]})
    return replace(options, **own)


def _read(flag: Flag, value: Any) -> Any:
    """A value of a file for the option. Raises OptionError for one of another type."""
    kinds: dict[Any, tuple[type, ...]] = {float: (int, float), bool: (bool,), int: (int,), str: (str,)}
    if flag.kind in kinds:
        if type(value) not in kinds[flag.kind]:
            wanted = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}[flag.kind]
            raise OptionError(f"{flag.name}={shown(value)}: must be {wanted}")
        return value
    return flag.read(str(value))
