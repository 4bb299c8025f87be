# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What limits a link: HTB at its rate; one first-in-first-out queue, or one for each priority of tagged packets."""

from __future__ import annotations

import json
from typing import Final

from sumwire_lab.options.run_options import LinkOptions

PRIORITIES: Final = 8
"""Of the DSCP's upper three bits; 7 is the most urgent, untagged traffic has 0."""
# A token bucket needs room for two full frames; at high rates a millisecond's worth keeps the timer from being
# the limit.
_BURST_MIN_BYTES: Final = 2 * 1514
_BURST_SECONDS: Final = 0.001
# What every priority gets in any case. HTB wants a rate above 0; this is a frame in 1.5 seconds, so that the order
# is strict for all that can be measured.
_FLOOR_BITS: Final = 8000
# HTB serves classes of one priority by turns of so many bytes: a full frame.
_QUANTUM_BYTES: Final = 1514
# Minor numbers of the classes, and handles of their queues: this and the priority (tc reads both as hexadecimal).
_CLASS_FIRST: Final = 0x10
# The priority within the IPv4 TOS byte.
_TOS_SHIFT: Final = 5
_TOS_MASK: Final = 0xE0


def shaping_commands(interface: str, link: LinkOptions) -> list[list[str]]:
    """What limits one direction of a link: HTB at the rate, before it a first-in-first-out queue.

    With `link.priorities` eight queues, served in strict order of the packets' priority, each as long as the one.
    """
    burst = str(max(_BURST_MIN_BYTES, int(link.mbit * 1e6 / 8 * _BURST_SECONDS)))
    rate = f"{round(link.mbit * 1e6)}bit"
    if link.priorities:
        return _by_priority(interface, link, rate, burst)
    commands = (
        f"tc qdisc replace dev {interface} root handle 1: htb default 1",
        f"tc class add dev {interface} parent 1: classid 1:1 htb rate {rate} burst {burst} cburst {burst}",
        f"tc qdisc add dev {interface} parent 1:1 handle 10: pfifo limit {link.queue_packets}",
    )
    return [command.split() for command in commands]


def _by_priority(interface: str, link: LinkOptions, rate: str, burst: str) -> list[list[str]]:
    """HTB lends the link's rate to the most urgent class that has packets: all ask, none owns any worth naming."""
    commands = [
        f"tc qdisc replace dev {interface} root handle 1: htb default {_CLASS_FIRST:x}",
        f"tc class add dev {interface} parent 1: classid 1:1 htb rate {rate} burst {burst} cburst {burst}",
    ]
    for priority in range(PRIORITIES):
        minor = _CLASS_FIRST + priority
        # HTB's own priority counts the other way: 0 is served first.
        order = PRIORITIES - 1 - priority
        commands += [
            f"tc class add dev {interface} parent 1:1 classid 1:{minor:x} htb rate {_FLOOR_BITS}bit ceil {rate} "
            f"burst {_BURST_MIN_BYTES} cburst {burst} prio {order} quantum {_QUANTUM_BYTES}",
            f"tc qdisc add dev {interface} parent 1:{minor:x} handle {minor:x}: pfifo limit {link.queue_packets}",
        ]
    # Untagged traffic, and all that is no IPv4, is left to the default class.
    commands += [
        f"tc filter add dev {interface} parent 1: protocol ip prio 1 u32 "
        f"match ip tos {priority << _TOS_SHIFT:#x} {_TOS_MASK:#x} flowid 1:{_CLASS_FIRST + priority:x}"
        for priority in range(1, PRIORITIES)
    ]
    return [command.split() for command in commands]


def drops_by_priority(text: str) -> dict[int, int]:
    """Packets that each priority's queue of an interface had no room for, out of `tc -s -j qdisc show dev`.

    Empty where the link does not tell priorities apart. Only priorities that lost any.
    """
    drops: dict[int, int] = {}
    for entry in json.loads(text):
        _, _, minor = str(entry.get("parent", "")).partition(":")
        priority = int(minor, 16) - _CLASS_FIRST if minor else -1
        if 0 <= priority < PRIORITIES and entry["drops"]:
            drops[priority] = int(entry["drops"])
    return drops
