# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Python definition of the packet against bytes typed by hand and against the P4 header's layout."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from hypothesis import given
from hypothesis import strategies as st
from sumwire.wire import packets as wire
from sumwire_protocol import constants as _p4

HEADER = wire.Header(
    kind=_p4.KIND_CONTRIBUTE, op=_p4.OP_MAX32, job=0x0304, slot=0x0506, worker=7, count=8, round=0x090A0B0C,
    contributors=0x0D0E0F10, flags=0x11, words=1, bucket=0x1314, cut=0x15, chunk=0x161718,
    token=0x191A1B1C1D1E1F20,
)  # fmt: skip
BYTES = bytes.fromhex("2102 0304 0506 07 08 090a0b0c 0d0e0f10 11 01 1314 15161718 191a1b1c1d1e1f20") + bytes(range(128))


def test_golden_bytes() -> None:
    assert wire.pack(HEADER, bytes(range(128))) == BYTES
    assert wire.unpack(BYTES) == (HEADER, bytes(range(128)))


def test_layout_is_the_p4_headers() -> None:
    """Every field alone set to its largest value lands where headers.p4 puts it."""
    offset = 0
    for name, width in _p4.SUMWIRE_FIELDS:
        if name not in ("version", "kind", "words"):
            fields = {"kind": 1, "op": 0, "job": 0, "slot": 0, "worker": 0, "count": 0, name: 2**width - 1}
            got = int.from_bytes(wire.pack(wire.Header(**fields)))
            assert got & ~(0xFF << 248) == ((2**width - 1) << (256 - offset - width)) & ~(0xFF << 248), name
        offset += width


def test_headers_written_at_once_are_the_golden_models() -> None:
    """Over the end of a round, and of all rounds."""
    payload = np.random.default_rng(1).integers(0, 256, (5, 512), np.uint8)
    packets = np.full((5, wire.HEADER_BYTES + 512), 0xFF, np.uint8)
    packets[:, wire.HEADER_BYTES :] = payload
    wire.write_headers(packets, op=_p4.OP_THC, job=513, seat=2, slots=3, first_sequence=3 * 2**32 - 2, bucket=770)
    for chunk, (packet, data) in enumerate(zip(packets, payload, strict=True)):
        round_, slot = divmod(3 * 2**32 - 2 + chunk, 3)
        expected = model.Packet(1, 1, 513, slot, 2, 1, round_ % 2**32, 0, 0, 4, 770, chunk, data.tobytes())
        assert packet.tobytes() == expected.encode()
        record = wire.headers(packets)[chunk]
        assert (record["round"], record["contributors"], wire.chunks_of(record)) == (expected.round, 0, chunk)


@given(st.binary(max_size=400))
def test_any_bytes_give_a_packet_or_a_wire_error(data: bytes) -> None:
    try:
        header, payload = wire.unpack(data)
    except wire.WireError:
        return
    assert wire.pack(header, payload) == data


TOO_LARGE = {"kind": 16, "op": 256, "job": 65536, "worker": 256, "round": 2**32, "chunk": 2**24, "cut": 256}
TOO_LARGE["token"] = 2**64


@pytest.mark.parametrize(("field", "value"), [("slot", -1), *TOO_LARGE.items()])
def test_value_that_does_not_fit(field: str, value: int) -> None:
    fields = {"kind": 1, "op": 1, "job": 1, "slot": 0, "worker": 0, field: value}
    with pytest.raises(wire.WireError, match=field):
        wire.pack(wire.Header(**fields))


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "at least 32"),
        (BYTES[:31], "at least 32"),
        (b"\x11" + BYTES[1:], "version 1"),
        (b"\x20" + BYTES[1:], "kind 0"),
        (BYTES[:-1], "127 bytes of payload"),
        (BYTES + b"\0", "129 bytes of payload"),
    ],
)
def test_refused_bytes(data: bytes, rule: str) -> None:
    with pytest.raises(wire.WireError, match=rule):
        wire.unpack(data)


def test_payload_that_is_not_whole_words() -> None:
    with pytest.raises(wire.WireError, match="words=1 needs 128"):
        wire.pack(HEADER, bytes(127))


def test_golden_model_types_the_same_numbers() -> None:
    """The golden model has its own copy of the wire's numbers; both follow docs/wire-format.md."""
    assert (model.UDP_PORT, model.VALUES, model.WORD) == (_p4.SUMWIRE_PORT, _p4.WORD_BITS, _p4.WORD_BYTES)
    assert (model.THC, model.MAX32) == (_p4.OP_THC, _p4.OP_MAX32)
    assert (model.CONTRIBUTE, model.RESULT, model.STALE) == (_p4.KIND_CONTRIBUTE, _p4.KIND_RESULT, _p4.KIND_STALE)
    assert (model.PROBE, model.INFORM) == (_p4.KIND_PROBE, _p4.KIND_INFORM)
