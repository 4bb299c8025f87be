# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random loss of packets that come into an interface.

A small BPF program at the interface's XDP hook drops them. The hook comes before packet sockets (those of P4 switches),
bridges and the kernel's own sockets, so that every system has the same loss, and the sender does not notice it. With a
filter on the sending side TCP would notice: it takes a local drop for a full queue and retransmits at once. Not every
kernel has netem, which is made for this purpose. XDP programs can draw random numbers, but not with a seed.

Needs Linux 5.9 or later, and root. The kernel removes the program when its descriptor is closed, and thus also when a
run is killed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from sumwire_lab.errors import LabError

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
    """Code that drops a packet with probability `share` and then adds 1 to the map with descriptor `counter`."""
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
    """Drops a share of the packets that come into an interface, until it is closed.

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
