# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which process serves which slot, and the BPF program that tells the kernel.

All processes listen at one port (SO_REUSEPORT). A classic BPF program reads the job and the slot of a datagram and
picks the socket. For a train of datagrams it picks once, by the first of them. So processes get blocks of as many slots
as a train has datagrams at most, workers let trains begin where blocks do (:mod:`sumwire.wire.trains`), and a process
passes on what is for other processes' slots all the same.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sumwire.aggregator.batches import Batch
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.packets import headers
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
_INSTRUCTION: Final = struct.Struct("=HBBI")


def owners(batch: Batch, processes: int) -> NDArray[np.uint32]:
    """The process of each datagram's slot, (count,); 0 for a datagram that is too short to have a slot."""
    records = headers(batch.rows[: batch.count])
    owner = (records["job"].astype(np.uint32) + (records["slot"].astype(np.uint32) >> BLOCK_BITS)) % processes
    return np.where(batch.sizes[: batch.count] < HEADER_BYTES, 0, owner).astype(np.uint32)


def program(processes: int) -> bytes:
    """`owners` as a classic BPF program. A datagram that is too short goes to the first socket."""
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
    """Attach the program to the group of sockets, through any of them; they count in the order of binding.

    Raises OSError.
    """
    code = program(processes)
    held = ctypes.create_string_buffer(code, len(code))
    filter_program = struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(held))
    udp.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, filter_program)
