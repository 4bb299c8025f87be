# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of `sumwire-lab verify TOPIC`, checked once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fields import Checked, at_least, between, names_of, option
from sumwire_lab.options.run_options import AGGREGATOR

SWITCHES: Final = ("soft", AGGREGATOR, "bmv2")
SEEDS: Final = 20
BMV2_SEEDS: Final = 5
"""bmv2 takes several times as long, so fewer seeds unless told otherwise."""
_PARALLEL_MAX: Final = 64


@dataclass(frozen=True)
class Topic:
    """The choices of a topic. ``grouped``: its rows are groups, and single rows are named GROUP-ROW."""

    about: str
    rows: tuple[str, ...] = ()
    grouped: bool = False
    flags: tuple[str, ...] = ()
    part: int = 1
    """With `--quick`, this part of the amounts of a whole verification."""


TOPICS: Final[Mapping[str, Topic]] = {
    "thc": Topic("run the checks of the THC work and say what holds"),
    "sign": Topic("run the checks of sign bits and trees, say what holds"),
    "speed": Topic("run the checks of speed and say what holds"),
    "acp": Topic("run the checks of ACP-SGD and baselines, say what holds"),
    "dlcp": Topic("run the checks of tagged packets and say what holds"),
    "life": Topic(
        "disturb runs as real life does, and say what holds",
        ("runs", "torchrun", "stopped", "switch", "link", "overflow", "checkpoint", "setups"),
        flags=("rows", "switches", "seeds", "parallel"),
    ),
    "trust": Topic(
        "attack jobs, switches and files, and say what holds",
        ("attacks", "forged", "network", "hostile-job", "programs", "p4runtime", "tls", "schedules", "fuzzers",
         "races", "models", "keyed", "blind", "listeners"),
        flags=("rows", "quick"),
        part=100,
    ),
    "papers": Topic(
        "check what readers of the papers expect, paper by paper",
        ("thc", "marsit", "dlcp", "acp"),
        grouped=True,
        flags=("rows", "quick"),
    ),
    "evidence": Topic(
        "compare with the strongest alternatives, and say what holds",
        ("headline", "thc", "marsit"),
        grouped=True,
        flags=("rows", "quick"),
    ),
    "see": Topic(
        "check what shows packets, and the doctor",
        ("tshark", "decode", "scapy", "doctor", "report", "live", "lab", "tutorials", "docs", "metrics", "watched"),
        flags=("rows", "switches", "quick"),
        part=10,
    ),
    "scale": Topic(
        "check the simulator of large networks",
        ("analytic", "host", "connections", "other", "engine", "days", "engines", "slots", "free-slots", "validation"),
        flags=("rows", "quick"),
        part=20,
    ),
    "ways": Topic(
        "check the ways in: from a wheel to a training",
        ("start", "scenarios", "backend", "outer", "packages", "pays"),
        grouped=True,
        flags=("rows", "quick"),
    ),
    "faithful": Topic(
        "check P4 programs and P4Runtime clients of others",
        ("v1model", "p4runtime", "tofino", "outside"),
        grouped=True,
        flags=("rows", "quick"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class VerifyOptions(Checked):
    """Options of `verify`: the rows of a topic to carry out, and their extent."""

    topic: str
    rows: tuple[str, ...] = option((), "with commas, some of the topic's rows", shown="all")
    switches: tuple[str, ...] = option(
        SWITCHES, "with commas, those that are tried", rule=names_of(SWITCHES), shown="those that are here"
    )
    repeats: int | None = option(
        None, "of the rows that have seeds", flag="seeds", rule=at_least(1), shown=f"{SEEDS}, bmv2 {BMV2_SEEDS}"
    )
    parallel: int = option(
        2 * (os.cpu_count() or 1), "cases side by side; most of them wait", rule=between(1, _PARALLEL_MAX)
    )
    quick: bool = option(False, "a small part of everything, for a try of minutes, which shows nothing")

    def __post_init__(self) -> None:
        if self.switches == ("all",):
            object.__setattr__(self, "switches", SWITCHES)
        super().__post_init__()
        topic = TOPICS[self.topic]
        if self.rows in ((), ("all",)):
            object.__setattr__(self, "rows", topic.rows)
        more = f", and {self.topic.upper()}-ROW" if topic.grouped else ""
        known = f"known are {', '.join(topic.rows)}{more}"
        if any((row.partition("-")[0] if topic.grouped else row) not in topic.rows for row in self.rows):
            raise OptionError(f"rows={','.join(self.rows)}: {known}")
        if len(set(self.rows)) != len(self.rows):
            raise OptionError(f"rows={','.join(self.rows)}: each at most once")

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of a training whose accuracy counts."""
        return (1,) if self.quick else (1, 2, 3)

    @property
    def doctored(self) -> tuple[str, ...]:
        """The switches with which the doctor is tested."""
        return self.switches[:1] if self.quick else self.switches

    def seeds_of(self, switch: str) -> int:
        """Return the number of seeds with a switch."""
        if self.repeats is not None:
            return self.repeats
        return BMV2_SEEDS if switch == "bmv2" else SEEDS

    def amount(self, whole: int) -> int:
        """Return how many repetitions to do of something that a whole verification does ``whole`` times."""
        return max(1, whole // TOPICS[self.topic].part) if self.quick else whole

    def wanted(self, group: str, rows: Collection[str]) -> list[str]:
        """Return the selected rows of a group, in their order. Raises OptionError for an unknown row."""
        chosen = {one.partition("-")[2] for one in self.rows if one.partition("-")[0] == group}
        unknown = chosen - {"", *rows}
        if unknown:
            raise OptionError(f"rows={group}-{min(unknown)}: rows of {group} are {', '.join(rows) or 'none'}")
        return [row for row in rows if "" in chosen or row in chosen]


def present() -> tuple[str, ...]:
    """Return the switches that this machine has."""
    return tuple(name for name in SWITCHES if name != "bmv2" or shutil.which("simple_switch_grpc"))
