# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the P4 program executes for a packet of THC: bmv2 pays for each table, condition and primitive.

A feature that a job does not use must cost it nothing. Who adds to these numbers says why.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
import sumwire
import torch
from helpers.paths import ROOT
from helpers.transport import soft_tree
from helpers.transport.udp_bridge import run_workers
from softswitch.switch import SoftSwitch
from sumwire.config import parse_job

WORKERS, PLANES = 4, 8
COUNTED = ("table", "condition", "assign", "register_read", "register_write", "validity")
# By the number of results that the packet causes: one in the middle of a slot, and the one that ends it.
COSTS = {
    0: {"table": 11, "condition": 38, "assign": 30, "register_read": 9, "register_write": 9, "validity": 4},
    WORKERS: {"table": 15, "condition": 46, "assign": 50, "register_read": 9, "register_write": 9, "validity": 4},
}


def test_a_packet_of_thc_costs_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    packets: list[dict[str, Any]] = []
    monkeypatch.setattr(soft_tree, "SoftSwitch", partial(SoftSwitch, engine="python", trace=packets.append))
    with soft_tree.soft_tree(soft_tree.STAR, {"train": 64}) as rig:
        mapping = rig.fresh_job("train")

        def work(worker: int) -> None:
            with sumwire.Job(parse_job(mapping, worker)) as job:
                for _ in range(2):
                    sumwire.all_reduce(torch.randn(20_000), job)

        with rig.bridge(mapping):
            run_workers(work, WORKERS)
    costs: dict[int, Counter[tuple[int, ...]]] = {results: Counter() for results in COSTS}
    for packet in packets:
        counted = Counter(event["event"] for event in packet["events"])
        # Greetings and norms have fewer planes.
        if counted["register_write"] > PLANES and len(packet["out"]) in costs:
            costs[len(packet["out"])][tuple(counted[name] for name in COUNTED)] += 1
    # The first packet of a round, and those that come again, are rarer.
    usual = {results: dict(zip(COUNTED, found.most_common(1)[0][0], strict=True)) for results, found in costs.items()}
    assert usual == COSTS


def test_the_page_has_these_numbers() -> None:
    amid, last = ([cost[name] for name in ("table", "condition", "assign", "register_read")] for cost in COSTS.values())
    told = "{} tables, {} conditions, {} assignments, and {} registers read and written".format(*amid)
    ended = "the one that ends the slot takes {}, {}, {} and {}.".format(*last)
    page = " ".join((ROOT / "docs" / "controller.md").read_text().split())
    assert f"{told}; {ended}" in page
