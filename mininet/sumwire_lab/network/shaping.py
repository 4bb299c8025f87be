# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Limits links: HTB at the link's rate, with one FIFO queue, or one FIFO queue per priority of tagged packets.

A train of packets that crosses the link as one frame counts as one packet of its whole length. Where hosts send trains,
queues are therefore limited in bytes.
"""

from __future__ import annotations

import json
from typing import Final

from sumwire_lab.options.run_options import UNLIMITED, LinkOptions

PRIORITIES: Final = 8
"""Priorities are the upper three bits of the DSCP. 7 is the most urgent; untagged packets have 0."""
_FRAME_BYTES: Final = 1514
# A token bucket needs room for two full frames. At high rates it gets a millisecond's worth, so that the kernel's timer
# is not the limit.
_BURST_MIN_BYTES: Final = 2 * _FRAME_BYTES
_BURST_SECONDS: Final = 0.001
# Rate that every priority is guaranteed, because HTB requires one above 0. It is a frame in 1.5 seconds, so that the
# order is strict for all practical purposes.
_FLOOR_BITS: Final = 8000
# Bytes that HTB serves from one class of a priority before the next one: a full frame.
_QUANTUM_BYTES: Final = _FRAME_BYTES
# Minor numbers of the classes, and handles of their queues: this and the priority (tc reads both as hexadecimal).
_CLASS_FIRST: Final = 0x10
# The priority within the IPv4 TOS byte.
_TOS_SHIFT: Final = 5
_TOS_MASK: Final = 0xE0


def shaping_commands(interface: str, link: LinkOptions, *, trains: bool = False) -> list[list[str]]:
    """Commands that limit one direction of a link: HTB at the rate, and a FIFO queue before it.

    With `link.priorities` there are eight queues of the same length, served in strict order of the packets' priority.
    `trains`: whether hosts send trains. A queue then holds as many bytes as it has full frames without them. There are
    no commands for an unlimited link.
    """
    if link.mbit == UNLIMITED:
        return []
    queue = f"bfifo limit {link.queue_packets * _FRAME_BYTES}" if trains else f"pfifo limit {link.queue_packets}"
    burst = str(max(_BURST_MIN_BYTES, int(link.mbit * 1e6 / 8 * _BURST_SECONDS)))
    rate = f"{round(link.mbit * 1e6)}bit"
    if link.priorities:
        return _by_priority(interface, queue, rate, burst)
    commands = (
        f"tc qdisc replace dev {interface} root handle 1: htb default 1",
        f"tc class add dev {interface} parent 1: classid 1:1 htb rate {rate} burst {burst} cburst {burst}",
        f"tc qdisc add dev {interface} parent 1:1 handle 10: {queue}",
    )
    return [command.split() for command in commands]


def _by_priority(interface: str, queue: str, rate: str, burst: str) -> list[list[str]]:
    """Every class may borrow the whole rate and owns next to none, so that HTB lends it to the most urgent one."""
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
            f"tc qdisc add dev {interface} parent 1:{minor:x} handle {minor:x}: {queue}",
        ]
    # Untagged packets, and all but IPv4, go to the default class.
    commands += [
        f"tc filter add dev {interface} parent 1: protocol ip prio 1 u32 "
        f"match ip tos {priority << _TOS_SHIFT:#x} {_TOS_MASK:#x} flowid 1:{_CLASS_FIRST + priority:x}"
        for priority in range(1, PRIORITIES)
    ]
    return [command.split() for command in commands]


def drops_by_priority(text: str) -> dict[int, int]:
    """Packets dropped by full queues, by priority, from the output of `tc -s -j qdisc show dev`.

    Priorities without drops are left out, so that it is empty for a link with one queue.
    """
    drops: dict[int, int] = {}
    for entry in json.loads(text):
        _, _, minor = str(entry.get("parent", "")).partition(":")
        priority = int(minor, 16) - _CLASS_FIRST if minor else -1
        if 0 <= priority < PRIORITIES and entry["drops"]:
            drops[priority] = int(entry["drops"])
    return drops
