# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Divides the slots among the processes of an aggregator: the BPF program that steers packets, and inboxes for the
rest.

All processes listen at one port (SO_REUSEPORT). A classic BPF program reads the job and the slot of a datagram and
picks the socket. For a train of datagrams (GSO) it picks once, by the first one. So each process owns blocks of as many
slots as the longest train has datagrams, and workers start trains at block boundaries (:mod:`sumwire.wire.trains`). A
process passes datagrams for other processes' slots on to their inboxes. Used by `server` and `processes`.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sumwire.aggregator.batches import ROW_BYTES, Batch
from sumwire.aggregator.sockets import received
from sumwire.wire.messages import MESSAGE, VECTOR, address_of, calls, checked
from sumwire.wire.packets import HEADER_BYTES, headers
from sumwire.wire.trains import TRAIN_ROWS

# Consecutive slots of one process: 2**6, as many as the longest train has datagrams.
BLOCK_BITS: Final = TRAIN_ROWS.bit_length() - 1
# From asm-generic/socket.h, and opcodes of linux/bpf_common.h.
_SO_ATTACH_REUSEPORT_CBPF: Final = 51
_LOAD_HALF: Final = 0x28
_INDEX_IS_A: Final = 0x07
_SHIFT_RIGHT: Final = 0x74
_ADD_INDEX: Final = 0x0C
_MODULO: Final = 0x94
_RETURN_A: Final = 0x16
# Precedes each datagram that is handed over.
_ORIGIN: Final = np.dtype([("source", np.uint32), ("port", ">u2"), ("tos", np.uint8), ("", np.uint8)])
_INSTRUCTION: Final = struct.Struct("=HBBI")


def owners(batch: Batch, processes: int) -> NDArray[np.uint32]:
    """The process of each datagram's slot, (count,); 0 for a datagram that is too short to have a slot."""
    records = headers(batch.rows[: batch.count])
    owner = (records["job"].astype(np.uint32) + (records["slot"].astype(np.uint32) >> BLOCK_BITS)) % processes
    return np.where(batch.sizes[: batch.count] < HEADER_BYTES, 0, owner).astype(np.uint32)


def program(processes: int) -> bytes:
    """Assemble :func:`owners` as a classic BPF program. A datagram that is too short goes to the first socket."""
    fields = headers(np.zeros((1, HEADER_BYTES), np.uint8)).dtype.fields
    assert fields is not None
    instructions = [
        (_LOAD_HALF, fields["job"][1]),
        (_INDEX_IS_A, 0),
        (_LOAD_HALF, fields["slot"][1]),
        (_SHIFT_RIGHT, BLOCK_BITS),
        (_ADD_INDEX, 0),
        (_MODULO, processes),
        (_RETURN_A, 0),
    ]
    return b"".join(_INSTRUCTION.pack(code, 0, 0, number) for code, number in instructions)


def attach(udp: socket.socket, processes: int) -> None:
    """Attach the program to a group of SO_REUSEPORT sockets, through any of them. They are numbered in the order of
    binding.

    Raises OSError.
    """
    code = program(processes)
    held = ctypes.create_string_buffer(code, len(code))
    filter_program = struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(held))
    udp.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, filter_program)


class HandOver:
    """A process's inbox for datagrams that other processes received, each preceded by its sender and TOS.

    It is a pair of connected sockets: all processes write, one reads.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._reader, self._writer):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)

    def fileno(self) -> int:
        return self._reader.fileno()

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def put(self, batch: Batch, which: NDArray[np.intp]) -> int:
        """Pass the datagrams of a batch that ``which`` selects to this inbox. Returns how many fitted."""
        send = calls()[0]
        origins, vectors = np.zeros(len(which), _ORIGIN), np.zeros((len(which), 2), VECTOR)
        origins["source"], origins["port"] = batch.sources[which], batch.ports[which]
        origins["tos"] = batch.tos[which]
        vectors["base"][:, 0] = address_of(origins) + np.arange(len(which)) * _ORIGIN.itemsize
        vectors["length"][:, 0] = _ORIGIN.itemsize
        vectors["base"][:, 1] = batch.addresses()[which]
        vectors["length"][:, 1] = np.minimum(batch.sizes[which], ROW_BYTES)
        messages = np.zeros(len(which), MESSAGE)
        messages["header"]["vectors"] = address_of(vectors) + np.arange(len(which)) * 2 * VECTOR.itemsize
        messages["header"]["vectors_length"] = 2
        try:
            return checked(send(self._writer.fileno(), address_of(messages), len(which), socket.MSG_DONTWAIT))
        except BlockingIOError:
            return 0


class HandOverReceiver:
    """Receives datagrams from a process's inbox."""

    def __init__(self, inbox: HandOver, batch: int) -> None:
        self._inbox = inbox
        self._receive = calls()[1]
        self._messages = np.zeros(batch, MESSAGE)
        origins, rows = np.zeros(batch, _ORIGIN), np.zeros((batch, ROW_BYTES), np.uint8)
        self._vectors = np.zeros((batch, 2), VECTOR)
        self._vectors["base"][:, 0] = address_of(origins) + np.arange(batch) * _ORIGIN.itemsize
        self._vectors["length"][:, 0] = _ORIGIN.itemsize
        self._vectors["base"][:, 1] = address_of(rows) + np.arange(batch) * ROW_BYTES
        self._vectors["length"][:, 1] = ROW_BYTES
        self._messages["header"]["vectors"] = address_of(self._vectors) + np.arange(batch) * 2 * VECTOR.itemsize
        self._messages["header"]["vectors_length"] = 2
        sizes = np.zeros(batch, np.uint32)
        self.batch = Batch(rows, sizes, origins["source"], origins["port"], origins["tos"], 0)

    def fileno(self) -> int:
        return self._inbox.fileno()

    def receive(self) -> Batch:
        """Return the datagrams that have arrived, at most one batch. The next call overwrites them."""
        batch = self.batch
        batch.count = received(self._receive, self.fileno(), address_of(self._messages), len(self._messages))
        np.subtract(self._messages["length"], _ORIGIN.itemsize, out=batch.sizes)
        return batch
