# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a worker's payload tells whoever sees it: how uniform its bytes are, and how they follow its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire.codec.planes import unpack_index_planes
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.packets import first_byte, headers
from sumwire_protocol import constants as p4

OCTETS: Final = 256
# Uniform bytes have a larger chi-square, of 255 degrees of freedom, in one of 1000 samples.
CHI_SQUARE_MOST: Final = 330.52
# The greeting's packets have higher ones.
_TAGS: Final = p4.BUCKET_OPENS_RUN
# Independent values exceed it in one of 1000 samples.
_SIGMAS: Final = 3.29


@dataclass(frozen=True)
class Noise:
    """``correlation``: of the payload with the worker's own values. ``most``: what it may be by chance."""

    bytes: int
    chi_square: float
    correlation: float
    most: float

    @property
    def tells_nothing(self) -> bool:
        """Whether the payload passes for noise."""
        return self.chi_square <= CHI_SQUARE_MOST and abs(self.correlation) <= self.most


def payload_of(datagrams: list[bytes], op: int, worker: int, slots: int) -> NDArray[np.uint8]:
    """The payload of a worker's contributions by an op, without retransmissions, in order: uint8 (chunks, bytes of
    one)."""
    found: dict[int, bytes] = {}
    for datagram in datagrams:
        packet = np.frombuffer(datagram, np.uint8).reshape(1, -1)
        [record] = headers(packet)
        contributes = record["version_kind"] == first_byte(p4.KIND_CONTRIBUTE) and record["bucket"] < _TAGS
        if contributes and record["op"] == op and record["worker"] == worker:
            found.setdefault(int(record["round"]) * slots + int(record["slot"]), datagram[HEADER_BYTES:])
    return np.array([np.frombuffer(found[place], np.uint8) for place in sorted(found)])


def values_of(payload: NDArray[np.uint8], op: int) -> NDArray[Any]:
    """The numbers of an open job's payload, by THC or SUM32, in order."""
    if op == p4.OP_THC:
        return unpack_index_planes(payload.reshape(len(payload), -1, p4.WORD_BYTES)).reshape(-1)
    return payload.reshape(-1).view(">i4")


def noise_of(payload: NDArray[np.uint8], values: NDArray[Any]) -> Noise:
    """``payload``: of SUM32 packets, as a switch has got them. ``values``: those that this worker has sent in them, in
    bytes or elements. Without masks they are the payload's own numbers."""
    counts = np.bincount(payload.reshape(-1), minlength=OCTETS)
    expected = payload.size / OCTETS
    # What comes before the values are other numbers, such as norms.
    numbers = payload.reshape(-1) if values.dtype == np.uint8 else payload.reshape(-1).view(">i4")
    seen = numbers[len(numbers) - len(values) :].astype(np.float64)
    return Noise(
        payload.size,
        float(np.square(counts - expected).sum() / expected),
        float(np.corrcoef(seen, values.astype(np.float64))[0, 1]),
        _SIGMAS / float(np.sqrt(len(values))),
    )
