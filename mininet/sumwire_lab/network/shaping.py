# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The limits of a link: rate and queues, random loss, and whether hosts keep their segmentation offloads."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from sumwire_lab.errors import LabError
from sumwire_lab.network.switches import choose_engine
from sumwire_lab.options.run_options import AGGREGATOR, UNLIMITED, LinkOptions, RunOptions

PRIORITIES: Final = 8
"""Priorities are the upper three bits of the DSCP. 7 is the most urgent; untagged packets have 0."""
_ETHERNET_BYTES: Final = 14
_BURST_SECONDS: Final = 0.001
# Rate that every priority is guaranteed, because HTB requires one above 0. It is a frame in 1.5 seconds, so that the
# order is strict for all practical purposes.
_FLOOR_BITS: Final = 8000
# Minor numbers of the classes, and handles of their queues: this and the priority (tc reads both as hexadecimal).
_CLASS_FIRST: Final = 0x10
# The priority within the IPv4 TOS byte.
_TOS_SHIFT: Final = 5
_TOS_MASK: Final = 0xE0


def shaping_commands(interface: str, link: LinkOptions, *, trains: bool = False) -> list[list[str]]:
    """Return commands that limit one direction of a link: HTB at the rate, and a FIFO queue before it.

    With `link.priorities` there are eight queues of the same length, served in strict order of the packets' priority.
    `trains`: whether hosts send trains. A queue then holds as many bytes as it has full frames without them. There are
    no commands for an unlimited link.
    """
    if link.mbit == UNLIMITED:
        return []
    frame = link.mtu + _ETHERNET_BYTES
    queue = f"bfifo limit {link.queue_packets * frame}" if trains else f"pfifo limit {link.queue_packets}"
    # A token bucket needs room for two full frames. At high rates it gets a millisecond's worth, so that the kernel's
    # timer is not the limit.
    burst = str(max(2 * frame, int(link.mbit * 1e6 / 8 * _BURST_SECONDS)))
    rate = f"{round(link.mbit * 1e6)}bit"
    if link.priorities:
        return _by_priority(interface, queue, rate, burst, frame)
    commands = (
        f"tc qdisc replace dev {interface} root handle 1: htb default 1",
        f"tc class add dev {interface} parent 1: classid 1:1 htb rate {rate} burst {burst} cburst {burst}",
        f"tc qdisc add dev {interface} parent 1:1 handle 10: {queue}",
    )
    return [command.split() for command in commands]


def _by_priority(interface: str, queue: str, rate: str, burst: str, frame: int) -> list[list[str]]:
    """Every class may borrow the whole rate and owns next to none, so that HTB lends it to the most urgent one. From
    one of a priority it serves a full frame before the next one."""
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
            f"burst {2 * frame} cburst {burst} prio {order} quantum {frame}",
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
    """Return packets dropped by full queues, by priority, from the output of `tc -s -j qdisc show dev`.

    Priorities without drops are omitted, so the result is empty for a link with one queue.
    """
    drops: dict[int, int] = {}
    for entry in json.loads(text):
        _, _, minor = str(entry.get("parent", "")).partition(":")
        priority = int(minor, 16) - _CLASS_FIRST if minor else -1
        if 0 <= priority < PRIORITIES and entry["drops"]:
            drops[priority] = int(entry["drops"])
    return drops


_SYSCALLS: Final = {"x86_64": 321, "aarch64": 280}
# Commands, types and flags of the kernel's linux/bpf.h.
_MAP_CREATE: Final = 0
_MAP_LOOKUP: Final = 1
_PROG_LOAD: Final = 5
_LINK_CREATE: Final = 28
_MAP_ARRAY: Final = 2
_PROG_XDP: Final = 6
_ATTACH_XDP: Final = 37
_GENERIC: Final = 2
"""XDP's generic mode, after the driver and on whole packets, which every interface has."""
_LICENSE: Final = b"GPL"
_LOG_BYTES: Final = 1 << 16
_ATTRIBUTE_BYTES: Final = 128
_CLONE_NEWNET: Final = 0x40000000

_DROP, _PASS = 1, 2
_RANDOM, _LOOKUP = 7, 1
_RESULT, _FIRST, _SECOND, _FRAME = 0, 1, 2, 10
"""Registers: result of a call, its arguments, end of the stack."""
_KEY: Final = -4

_T = TypeVar("_T")


def _op(code: int, dst: int = 0, src: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhI", code, src << 4 | dst, offset, value & 0xFFFFFFFF)


def program(share: float, counter: int) -> bytes:
    """BPF code that drops a packet with probability `share` and then adds 1 to the map with descriptor `counter`."""
    threshold = min(int(share * 2**32), 2**32 - 1)
    drop = [
        _op(0x62, _FRAME, 0, _KEY, 0),  # key = 0, on the stack
        _op(0xBF, _SECOND, _FRAME),
        _op(0x07, _SECOND, value=_KEY),
        _op(0x18, _FIRST, 1, 0, counter) + _op(0x00),  # the map, as a constant of two instructions
        _op(0x85, value=_LOOKUP),
        _op(0x15, _RESULT, 0, 2, 0),  # cannot be null, but the verifier requires the test
        _op(0xB7, _FIRST, value=1),
        _op(0xDB, _RESULT, _FIRST),  # *cell += 1, atomically
        _op(0xB7, _RESULT, value=_DROP),
        _op(0x95),
    ]
    keep = [_op(0xB7, _RESULT, value=_PASS), _op(0x95)]
    # An unsigned 32-bit comparison: below the threshold, the two instructions that pass the packet are skipped.
    return b"".join([_op(0x85, value=_RANDOM), _op(0xA6, _RESULT, 0, len(keep), threshold), *keep, *drop])


class RandomLoss:
    """Drops a share of the packets that arrive at an interface, until it is closed.

    `namespace`: a process in the interface's network namespace; None: this process. Raises LabError if the kernel
    refuses, and for a share outside (0, 1).
    """

    def __init__(self, interface: str, share: float, namespace: int | None = None) -> None:
        if not 0 < share < 1:
            raise LabError(f"share={share}: packets are lost with a probability above 0 and below 1")
        self.interface = interface
        self._descriptors: list[int] = []
        try:
            self._counter = self._own(_bpf(_MAP_CREATE, struct.pack("<IIII", _MAP_ARRAY, 4, 8, 1), "counter"))
            loaded = self._own(_load(program(share, self._counter)))
            self._own(_inside(namespace, lambda: _attach(loaded, interface)))
        except BaseException:
            self.close()
            raise

    @property
    def lost(self) -> int:
        """Packets dropped so far."""
        key, value = ctypes.c_uint32(0), ctypes.c_uint64(0)
        places = struct.pack("<IIQQQ", self._counter, 0, ctypes.addressof(key), ctypes.addressof(value), 0)
        _bpf(_MAP_LOOKUP, places, "counter")
        return value.value

    def close(self) -> None:
        """Stop dropping packets. May be called again."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _own(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor


def _load(code: bytes) -> int:
    """Descriptor of the program, after the kernel's verifier has accepted it."""
    license_, instructions = ctypes.create_string_buffer(_LICENSE), ctypes.create_string_buffer(code, len(code))
    log = ctypes.create_string_buffer(_LOG_BYTES)
    attribute = struct.pack(
        "<IIQQIIQI",
        _PROG_XDP,
        len(code) // 8,
        ctypes.addressof(instructions),
        ctypes.addressof(license_),
        1,
        _LOG_BYTES,
        ctypes.addressof(log),
        0,
    )
    try:
        return _bpf(_PROG_LOAD, attribute, "program")
    except LabError as error:
        raise LabError(f"{error}; the kernel says: {log.value.decode(errors='replace').strip()}") from error


def _attach(loaded: int, interface: str) -> int:
    try:
        index = socket.if_nametoindex(interface)
    except OSError as error:
        raise LabError(f"random loss on {interface}: no such interface here") from error
    return _bpf(_LINK_CREATE, struct.pack("<IIII", loaded, index, _ATTACH_XDP, _GENERIC), interface)


def _bpf(command: int, attribute: bytes, what: str) -> int:
    machine = platform.machine()
    if machine not in _SYSCALLS:
        raise LabError(f"random loss: the number of bpf() is not known for machine {machine}")
    buffer = ctypes.create_string_buffer(attribute, max(len(attribute), _ATTRIBUTE_BYTES))
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(_SYSCALLS[machine], command, buffer, len(buffer))
    if result < 0:
        number = ctypes.get_errno()
        raise LabError(f"random loss, {what}: bpf({command}) failed with {os.strerror(number)} (needs root, BPF)")
    return result


def _inside(namespace: int | None, call: Callable[[], _T]) -> _T:
    """Call in another process's network namespace. A thread of its own enters it, because it cannot come back."""
    if namespace is None:
        return call()
    results: list[_T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            _enter(namespace)
            results.append(call())
        except (LabError, OSError) as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _enter(pid: int) -> None:
    with Path(f"/proc/{pid}/ns/net").open("rb") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise LabError(f"network namespace of process {pid}: {os.strerror(number)}")


OFFLOADS: Final = ("tx", "rx", "sg", "tso", "gso", "gro")
"""Offloads by the names of `ethtool -K`."""


def kept(kind: str | None, options: RunOptions) -> bool:
    """Return whether hosts keep their offloads in a network with this kind of switch; None: kernel bridges.

    bmv2, the soft switch's Python engine and the delaying process read packets one by one, in final form. Random loss,
    and full queues by priority, act on one frame of the link, so they would drop whole trains.
    """
    conditions = options.conditions
    whole_trains_lost = conditions.loss > 0 or conditions.gray is not None or options.link.priorities
    takes_trains = kind in (None, AGGREGATOR) or (kind == "soft" and choose_engine(options.engine) == "native")
    return takes_trains and not whole_trains_lost and not conditions.delay_ms


def mtu_command(interface: str, link: LinkOptions) -> list[str]:
    """Return the command that lets an interface carry packets of the link's size."""
    return ["ip", "link", "set", interface, "mtu", str(link.mtu)]


def off_command(interface: str) -> list[str]:
    """Return the command after which frames are sent as on a real wire: neither joined nor split, and with their
    checksums."""
    return ["ethtool", "-K", interface, *(word for name in OFFLOADS for word in (name, "off"))]
