# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The commands that limit a link, and what the kernel tells of its queues."""

from __future__ import annotations

import json
import re

from sumwire_lab.network.shaping import drops_by_priority, shaping_commands
from sumwire_lab.options.run_options import LinkOptions


def lines(link: LinkOptions) -> list[str]:
    return [" ".join(command) for command in shaping_commands("x", link)]


def test_without_priorities_there_is_one_queue() -> None:
    """What every run had before there were tags."""
    assert lines(LinkOptions(100, 256)) == [
        "tc qdisc replace dev x root handle 1: htb default 1",
        "tc class add dev x parent 1: classid 1:1 htb rate 100000000bit burst 12500 cburst 12500",
        "tc qdisc add dev x parent 1:1 handle 10: pfifo limit 256",
    ]


def test_a_queue_of_trains_is_limited_in_bytes() -> None:
    for link, queues in ((LinkOptions(100.0), 1), (LinkOptions(100.0, priorities=True), 8)):
        text = [" ".join(command) for command in shaping_commands("x", link, trains=True)]
        assert sum(line.endswith(f"bfifo limit {256 * 1514}") for line in text) == queues
        assert not any("pfifo" in line for line in text)


def test_tos_leads_to_the_class_that_htb_serves_in_that_order() -> None:
    text = lines(LinkOptions(20, 100, priorities=True))
    order = {}
    for line in text:
        if found := re.search(r"classid 1:(\w+) htb rate 8000bit ceil 20000000bit .* prio (\d)", line):
            order[found[1]] = int(found[2])
    leads = {}
    for line in text:
        if found := re.search(r"match ip tos (\w+) 0xe0 flowid 1:(\w+)", line):
            leads[int(found[1], 16)] = order[found[2]]
    # TOS is DSCP << 2, and the priority is DSCP >> 3; HTB's prio 0 is served first.
    assert leads == {7 << 5: 0, 6 << 5: 1, 5 << 5: 2, 4 << 5: 3, 3 << 5: 4, 2 << 5: 5, 1 << 5: 6}
    default = re.search(r"htb default (\w+)", text[0])
    assert default is not None
    assert order[default[1]] == 7
    assert sum("pfifo limit 100" in line for line in text) == 8


def test_links_between_switches_have_a_rate_of_their_own() -> None:
    link = LinkOptions(100, 64, trunk_mbit=25, priorities=True)
    assert link.trunk() == LinkOptions(25, 64, priorities=True)
    assert LinkOptions(100).trunk() == LinkOptions(100)


def test_drops_are_told_by_priority() -> None:
    told = [
        {"kind": "htb", "handle": "1:", "root": True, "drops": 12},
        {"kind": "pfifo", "handle": "10:", "parent": "1:10", "drops": 9},
        {"kind": "pfifo", "handle": "13:", "parent": "1:13", "drops": 0},
        {"kind": "pfifo", "handle": "17:", "parent": "1:17", "drops": 3},
    ]
    assert drops_by_priority(json.dumps(told)) == {0: 9, 7: 3}
    one_queue = [told[0], {"kind": "pfifo", "handle": "10:", "parent": "1:1", "drops": 12}]
    assert drops_by_priority(json.dumps(one_queue)) == {}
