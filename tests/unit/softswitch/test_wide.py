# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Wide numbers and checksums in both engines."""

from __future__ import annotations

import binascii
import random
import struct
from collections.abc import Callable

import pytest
from helpers.softswitch.compile_programs import PROGRAMS
from hypothesis import given, settings
from hypothesis import strategies as st
from softswitch.runtime.entries import ActionCall, Entry, Exact
from softswitch.switch import EngineChoice, SoftSwitch

ETHERNET = bytes(12) + b"\x08\x00"
GOOD, BAD = 1, 2


@pytest.fixture
def switch(switch_for: Callable[[str], SoftSwitch]) -> SoftSwitch:
    return switch_for("checksum")


def rfc1071(header: bytes) -> int:
    total = sum(int.from_bytes(header[i : i + 2]) for i in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def with_checksum(header: bytes) -> bytes:
    blank = header[:10] + b"\0\0" + header[12:]
    return blank[:10] + rfc1071(blank).to_bytes(2) + blank[12:]


def headers() -> list[bytes]:
    draw = random.Random(3)
    drawn = [draw.randbytes(1) + b"\x00" + draw.randbytes(18) for _ in range(30)]
    # Sums of exactly 0 and 0xffff, before and after the time to live is counted down, are the two zeros.
    ones = bytes(4) + b"\xff\xff" + bytes(14)
    return [bytes(20), ones, ones[:8] + b"\x01" + ones[9:], bytes(8) + b"\x01" + bytes(11), *drawn]


@pytest.mark.parametrize("header", headers(), ids=bytes.hex)
def test_verify_and_update(switch: SoftSwitch, header: bytes) -> None:
    right = with_checksum(header)
    wrong = right[:11] + bytes([right[11] ^ 1]) + right[12:]
    lower = with_checksum(right[:8] + bytes([(right[8] - 1) % 256]) + right[9:])
    assert switch.process(1, ETHERNET + right + b"data") == [(GOOD, ETHERNET + lower + b"data")]
    assert switch.process(1, ETHERNET + wrong + b"data") == [(BAD, ETHERNET + lower + b"data")]


def test_no_update_where_the_condition_fails(switch: SoftSwitch) -> None:
    header = with_checksum(b"\x45\xff" + bytes(range(18)))
    ((port, out),) = switch.process(1, ETHERNET + header)
    expected = header[:8] + bytes([header[8] - 1]) + header[9:]
    assert (port, out) == (GOOD, ETHERNET + expected)


def test_no_verification_without_the_header(switch: SoftSwitch) -> None:
    frame = bytes(12) + b"\x08\x06" + b"\xff" * 30
    assert switch.process(1, frame) == [(GOOD, frame)]


FULL = (1 << 1024) - 1
MASK32 = (1 << 32) - 1
HASH_OPS = {"draw": 32, "crc16": 33, "crc32": 34, "csum16": 35, "early": 36}

EDGES = [0, 1, FULL, FULL - 1, 1 << 1023, (1 << 512) - 1]
words = st.one_of(st.sampled_from(EDGES), st.integers(0, FULL))
bytes_8 = st.integers(0, 255)
shorts = st.one_of(st.sampled_from([0, 1, 99, 100, 0x7FFF, 0x8000, 0xFFFF]), st.integers(0, 0xFFFF))

OPERATORS: dict[int, Callable[[int, int, int], int]] = {
    0: lambda a, b, i: (a + b) % (1 << 1024),
    1: lambda a, b, i: (a - b) % (1 << 1024),
    2: lambda a, b, i: (a * b) % (1 << 1024),
    3: lambda a, b, i: FULL - a,
    4: lambda a, b, i: -a % (1 << 1024),
    5: lambda a, b, i: (a & (FULL - b)) ^ (a | b),
    6: lambda a, b, i: (a << i) % (1 << 1024),
    7: lambda a, b, i: a >> i,
    8: lambda a, b, i: a - (a >> 32 & MASK32) * (1 << 32) + (b & MASK32) * (1 << 32),
    9: lambda a, b, i: (b % (1 << 512)) << 512 | a >> 512,
    10: lambda a, b, i: min(a + b, FULL),
    11: lambda a, b, i: max(a, b),
}


@pytest.fixture(scope="module")
def shared(engine: EngineChoice) -> SoftSwitch:
    return SoftSwitch((PROGRAMS / "wide.json").read_text(), seed=1, engine=engine)


def request_frame(op: int, index: int = 0, small: int = 0, result: int = 0, *values: int) -> bytes:
    return struct.pack(">BBHI", op, index, small, result) + b"".join(value.to_bytes(128) for value in values)


def run(switch: SoftSwitch, frame: bytes) -> tuple[int, int, int, int, list[int]]:
    ((port, out),) = switch.process(2, frame)
    assert port == 1
    assert len(out) == len(frame)
    op, index, small, result = struct.unpack(">BBHI", out[:8])
    return op, index, small, result, [int.from_bytes(out[i : i + 128]) for i in range(8, len(out), 128)]


@settings(max_examples=40)
@given(op=st.sampled_from(sorted(OPERATORS)), a=words, b=words, index=bytes_8, small=shorts)
def test_operators(shared: SoftSwitch, op: int, a: int, b: int, index: int, small: int) -> None:
    _, _, got_small, _, (got_a, got_b) = run(shared, request_frame(op, index, small, 0, a, b))
    assert got_a == OPERATORS[op](a, b, index)
    assert got_b == b
    assert got_small == (max(small - 100, 0) if op == 10 else small)


@pytest.mark.parametrize("op", sorted(OPERATORS))
@pytest.mark.parametrize(("a", "b"), [(0, 0), (FULL, 1), (0, 1), (FULL, FULL), (1 << 1023, 1 << 1023)])
def test_operators_at_the_edges(shared: SoftSwitch, op: int, a: int, b: int) -> None:
    assert run(shared, request_frame(op, 255, 0, 0, a, b))[4] == [OPERATORS[op](a, b, 255), b]


@pytest.mark.parametrize("small", [0, 1, 3, 4, 0x7FFF, 0x8000, 0xFFFF, 0xFFFC])
def test_signed_shift_widening_and_branches_inside_an_action(shared: SoftSwitch, small: int) -> None:
    signed = (small - 0x10000 if small >= 0x8000 else small) >> 2
    branch = 1 if signed < 0 else 2 if signed == 0 else 3
    _, index, _, result, _ = run(shared, request_frame(12, 0, small, 0, 0, 0))
    assert (index, result) == (branch, signed & MASK32)


def test_registers_accumulate_return_leaves_the_action_and_wrap(switch_for: Callable[[str], SoftSwitch]) -> None:
    switch = switch_for("wide")
    smalls = []
    for _ in range(4):
        _, _, small, _, (total, _) = run(switch, request_frame(13, 3, 0xEEEE, 0, 1 << 1023, 5))
        smalls.append(small)
    assert smalls == [0, 1, 0xEEEE, 0xEEEE]  # returned early once the count was 2
    assert total == 0
    assert switch.registers("ingress.count") == [0, 0, 0, 2]
    assert switch.registers("ingress.store") == [0, 0, 0, 0]
    run(switch, request_frame(13, 2, 0, 0, 77, 5))
    assert switch.registers("ingress.store") == [0, 0, 77, 0]


def test_an_index_past_the_end_reads_and_writes_nothing(switch_for: Callable[[str], SoftSwitch]) -> None:
    switch = switch_for("wide")
    assert run(switch, request_frame(13, 4, 0, 0, 9, 5))[4] == [9, 5]
    assert switch.registers("ingress.store") == [0, 0, 0, 0]


def test_write_register(switch_for: Callable[[str], SoftSwitch]) -> None:
    switch = switch_for("wide")
    switch.write_register("ingress.store", 1, FULL)
    assert run(switch, request_frame(13, 1, 0, 0, 2, 0))[4] == [1, 0]


def test_random_stays_in_its_range_and_follows_the_seed(
    program_text: Callable[[str], str], engine: EngineChoice
) -> None:
    def draws(seed: int) -> list[int]:
        switch = SoftSwitch(program_text("wide"), seed=seed, engine=engine)
        return [run(switch, request_frame(HASH_OPS["draw"]))[3] for _ in range(200)]

    assert set(draws(1)) == set(range(10, 21))
    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def crc16_arc(data: bytes) -> int:
    remainder = 0
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0xA001 if remainder & 1 else 0)
    return remainder


@pytest.mark.parametrize(("index", "small"), [(0, 0), (0x31, 0x3233), (255, 65535)])
def test_hashes(shared: SoftSwitch, index: int, small: int) -> None:
    assert run(shared, request_frame(33, index, small))[3] == crc16_arc(bytes([33, index]))
    assert run(shared, request_frame(34, index, small))[3] == binascii.crc32(bytes([34, index]))
    total = (35 << 8 | index) + small
    total = (total & 0xFFFF) + (total >> 16)
    assert run(shared, request_frame(35, index, small))[3] == (0xFFFF - total) % 1000 + 5


def test_crc16_reference_is_the_arc_polynomial() -> None:
    assert crc16_arc(b"123456789") == 0xBB3D  # the catalogue's check value


@pytest.mark.parametrize(("index", "expected"), [(1, (37, 1, 9, 1)), (2, (36, 2, 7, 2)), (3, (37, 3, 9, 3))])
def test_return_and_exit_inside_an_action(shared: SoftSwitch, index: int, expected: tuple[int, ...]) -> None:
    assert run(shared, request_frame(36, index, 9))[:4] == expected


@pytest.mark.parametrize(
    "coefficients", [(0, 0, 0), (FULL, 0, 0), (0, FULL, FULL), (FULL, FULL, 0), (3, 1 << 700, 12345)]
)
def test_wide_action_data(switch_for: Callable[[str], SoftSwitch], coefficients: tuple[int, int, int]) -> None:
    switch = switch_for("wide")
    switch.insert("ingress.coefficients", Entry((Exact(4),), ActionCall("ingress.select_words", coefficients)))
    a, b = (1 << 900) + 0xF0F0, (1 << 701) - 1
    c0, c1, c2 = coefficients
    expected = (c0 & a) ^ (c1 & b) ^ c2
    assert run(switch, request_frame(20, 4, 0, 0, a, b))[4] == [expected, expected ^ c1]
    assert run(switch, request_frame(20, 5, 0, 0, a, b))[4] == [a, b]
