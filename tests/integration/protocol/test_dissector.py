# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What tshark shows with the dissector, on captures of every kind of packet and of whole runs in a lossy tree."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from golden import ops as golden_ops
from golden import packets as golden
from golden.packets import Host, Packet, udp_frame
from helpers.see import pcaps, truth
from simulate.capture import lossy_tree, play_captured
from sumwire_protocol import layout
from sumwire_protocol.wireshark import table as wireshark

pytestmark = pytest.mark.tshark

WORKER = Host(1, bytes.fromhex("020000000001"), bytes([10, 0, 0, 1]))
SWITCH = Host(2, bytes.fromhex("020000000009"), bytes([10, 0, 0, 9]))
# A run of so many values is captured at both ends of all links: some 28 frames for each 1024 of them.
CHUNKS = int(os.environ.get("SUMWIRE_SEE_CHUNKS", "40"))
_ANSWERS = (golden.RESULT, golden.STALE, golden.INFORM, golden.REFUSED)


def _frame(packet: Packet, more: bytes = b"") -> bytes:
    ends = (SWITCH, WORKER) if packet.kind in _ANSWERS else (WORKER, SWITCH)
    return udp_frame(*ends, packet.encode() + more)


def _capture(path: Path, packets: Iterable[Packet | bytes]) -> Path:
    """The packets, a millisecond apart."""
    frames = [each if isinstance(each, bytes) else _frame(each) for each in packets]
    return pcaps.write(path, [(at / 1000, "h1", frame) for at, frame in enumerate(frames)])


def _packet(kind: int, op: int = golden_ops.SUM32, words: int = 0, **fields: int) -> Packet:
    given = {
        "job": 7, "slot": 2, "worker": 1, "count": 1, "round": 3, "contributors": 0, "flags": 0, "bucket": 4, "chunk": 6
    }  # fmt: skip
    return Packet(kind, op, words=words, payload=bytes(words * golden_ops.WORD), **{**given, **fields})


def _every_kind(rng: random.Random) -> list[Packet]:
    """Each kind with each op and each flag, with other fields at random."""
    made = []
    for op, flag in itertools.product(golden_ops.OPS, (0, *(1 << k for k in range(8)))):
        shapes = [
            (golden.CONTRIBUTE, golden_ops.WORDS_UP[op]),
            (golden.CONTRIBUTE, golden_ops.WORDS_PARTIAL[op]),
            (golden.RESULT, golden_ops.WORDS_DOWN[op]),
            *((kind, 0) for kind in (golden.STALE, golden.PROBE, golden.INFORM, golden.REFUSED)),
        ]
        for kind, words in shapes:
            fields = {name: rng.getrandbits(16) for name in ("job", "slot", "bucket", "chunk")}
            fields |= {name: rng.getrandbits(32) for name in ("round", "contributors")}
            fields |= {"worker": rng.getrandbits(5), "cut": rng.getrandbits(8), "token": rng.getrandbits(64)}
            count = rng.randrange(1, 23)
            made.append(
                Packet(kind, op, words=words, count=count, flags=flag, payload=rng.randbytes(words * 128), **fields)
            )
    thc = golden_ops.THC
    made.append(_packet(golden.CONTRIBUTE, thc, golden_ops.WORDS_TRIMMED, flags=golden.TRIMMED))
    made.append(_packet(golden.RESULT, thc, golden_ops.WORDS_CUT, cut=golden.CUT_RESULT | 4))
    made += [_packet(golden.PROBE, golden.NO_OP), _packet(golden.INFORM, golden.NO_OP, bucket=0xA1B2, chunk=0x03C3D4)]
    return made


def test_every_kind_op_and_flag(tmp_path: Path) -> None:
    made = _every_kind(random.Random(3))
    path = _capture(tmp_path / "kinds.pcapng", made)
    flags = [f"flags.{name.lower()}" for name in layout.FLAGS.values()]
    seen = pcaps.packets(path, *pcaps.EXPERTS, *flags)
    assert [fields for fields, _ in seen] == [pcaps.fields(packet) for packet in made]
    for packet, (_, row) in zip(made, seen, strict=True):
        assert [row[name] in ("1", "True") for name in flags] == [bool(packet.flags & 1 << k) for k in range(8)]
        assert not any(row[name] for name in ("bad_version", "bad_length", "bad_words", "bad_code"))
        assert bool(row["flush"]) == bool(packet.flags & golden.FLUSH)
        assert bool(row["refused"]) == (packet.kind == golden.REFUSED)
        assert bool(row["stale"]) == (packet.kind == golden.STALE)


def test_reasons_digest_and_cuts(tmp_path: Path) -> None:
    reasons = [_packet(golden.REFUSED, count=code) for code in range(1, 23)]
    hello = _packet(golden.INFORM, golden.NO_OP, bucket=0xA1B2, chunk=0x03C3D4)
    cut = _packet(golden.RESULT, golden_ops.THC, golden_ops.WORDS_CUT, cut=golden.CUT_RESULT | 4)
    path = _capture(tmp_path / "reasons.pcapng", [*reasons, hello, cut])
    more = ("reason", "revision", "digest", "cut.result", "cut.planes")
    rows = [row for _, row in pcaps.packets(path, *more)]
    assert [int(row["reason"]) for row in rows[:22]] == list(range(1, 23))
    assert (pcaps.number(rows[22]["digest"]), rows[22]["revision"]) == (0xA1B2C3D4, "3")
    assert (rows[23]["cut.result"], rows[23]["cut.planes"]) in (("1", "4"), ("True", "4"))
    text = [row["_ws.expert.message"] for row in pcaps.rows(path, ["_ws.expert.message"])]
    assert "Refused: TOKEN: of a run that is not open at this switch" in text
    assert "Refused: VERSION" in text


_WRONG = [
    (b"", None),
    (b"\x24", "bad_length"),
    (_packet(golden.PROBE).encode()[:31], "bad_length"),
    (_packet(golden.RESULT, words=8).encode()[:-1], "bad_length"),
    (_packet(golden.RESULT, words=8).encode() + b"x", "bad_length"),
    (_packet(golden.RESULT, words=4).encode(), "bad_words"),
    (_packet(golden.PROBE, words=1).encode(), "bad_words"),
    (_packet(golden.CONTRIBUTE, golden_ops.THC, golden_ops.WORDS_TRIMMED).encode(), "bad_words"),
    (_packet(9).encode(), "bad_code"),
    (_packet(golden.RESULT, op=77).encode(), "bad_code"),
    (_packet(golden.PROBE)._replace(version=1).encode(), "bad_version"),
]


def test_what_breaks_a_rule_is_said_so(tmp_path: Path) -> None:
    path = _capture(tmp_path / "wrong.pcapng", [udp_frame(WORKER, SWITCH, data) for data, _ in _WRONG])
    names = [f"sumwire.{name}" for name in pcaps.EXPERTS if name.startswith("bad_")]
    rows = pcaps.rows(path, ["_ws.malformed", "_ws.lua.error", *names])
    for row, (data, expert) in zip(rows, _WRONG, strict=True):
        assert [name for name in names if row[name]] == ([f"sumwire.{expert}"] if expert else []), data
        assert bool(row["_ws.malformed"]) == (expert == "bad_length")
        assert not row["_ws.lua.error"]


def test_request_and_answer_belong_together(tmp_path: Path) -> None:
    """A contribution that is lost, its copy with the result, a second result, a late copy, two questions."""
    result = _packet(golden.RESULT, words=8)
    contribution = _packet(golden.CONTRIBUTE, words=8)
    probe, inform = _packet(golden.PROBE), _packet(golden.INFORM)
    hello, told = _packet(golden.PROBE, golden.NO_OP, round=0), _packet(golden.INFORM, golden.NO_OP, round=57, token=9)
    stale = _packet(golden.STALE, round=9)
    again = contribution._replace(flags=golden.RESYNC)
    packets = [contribution, again, result, result, again, stale, probe, inform, hello, told, hello, told]
    rows = [row for _, row in pcaps.packets(_capture(tmp_path / "c.pcapng", packets), *pcaps.LINKS, *pcaps.EXPERTS)]
    assert [row["answer_in"] for row in rows] == ["", "3", "", "", "6", "", "8", "", "10", "", "12", ""]
    assert [row["answers"] for row in rows] == ["", "", "2", "2", "", "5", "", "7", "", "9", "", "11"]
    assert [row["copy"] for row in rows] == ["", "2", "", "", "3", *[""] * 7]
    assert [row["copy_of"] for row in rows] == ["", "1", "", "", "2", *[""] * 7]
    assert [n for n, row in enumerate(rows) if row["lost"]] == [1]
    assert [n for n, row in enumerate(rows) if row["resent"]] == [1, 4]
    assert [n for n, row in enumerate(rows) if row["duplicate"]] == [3]
    assert float(rows[2]["time"]) == pytest.approx(0.001) and float(rows[2]["time_first"]) == pytest.approx(0.002)


@pytest.mark.parametrize("tag", [b"", bytes(range(8))])
def test_the_packets_of_a_train_are_shown_one_by_one(tmp_path: Path, tag: bytes) -> None:
    """As a host that sends and receives trains has them in a capture; the second one is lost, and one copy with it."""
    sent = [_packet(golden.CONTRIBUTE, words=8, slot=slot, chunk=slot) for slot in range(4)]
    results = [packet._replace(kind=golden.RESULT, count=2, contributors=3) for packet in (sent[0], sent[2], sent[3])]
    again = sent[1]._replace(flags=golden.RESYNC)

    def train(packets: list[Packet]) -> bytes:
        return _frame(packets[0], tag + b"".join(packet.encode() + tag for packet in packets[1:]))

    path = _capture(tmp_path / "trains.pcapng", [train(sent), train(results), train([again])])
    names = ("slot", "answer_in", "answers", "copy_of", "bad_length", "lost")
    seen = pcaps.rows(path, [f"sumwire.{name}" for name in names])
    told = [[row[f"sumwire.{name}"] for name in names] for row in seen]
    # An expert's text comes with it, so only whether there is one counts.
    assert [row[:5] for row in told] == [
        ["0,1,2,3", "2,2,2", "", "", ""],
        ["0,2,3", "", "1,1,1", "", ""],
        ["1", "", "", "1", ""],
    ]
    assert [bool(row[5]) for row in told] == [False, False, True]
    (info, *_) = (row["_ws.col.Info"] for row in pcaps.rows(path, ["_ws.col.Info"]))
    assert info.startswith("CONTRIBUTE SUM32") and info.endswith("(and 3 more in a train)")


def test_a_capture_of_the_headers_alone_is_enough(tmp_path: Path) -> None:
    """`tcpdump -s 80`, of a packet, its result, and a train whose second packet has 20 bytes left."""
    sent = _packet(golden.CONTRIBUTE, words=8)
    other = sent._replace(slot=3, chunk=7)
    whole = [_frame(sent), _frame(sent._replace(kind=golden.RESULT)), _frame(other, sent.encode())]
    kept = [80, 80, 42 + len(other.encode()) + 20]
    data = bytearray(pcaps.pcap([]))
    for frame, length in zip(whole, kept, strict=True):
        data += struct.pack("<IIII", 1, 0, length, len(frame)) + frame[:length]
    path = tmp_path / "short.pcap"
    path.write_bytes(data)
    rows = pcaps.rows(path, ["sumwire.slot", "sumwire.answers", "sumwire.bad_length", "_ws.malformed"])
    assert [list(row.values()) for row in rows] == [["2", "", "", ""], ["2", "1", "", ""], ["3", "", "", ""]]


def test_values_are_shown_on_demand(tmp_path: Path) -> None:
    rng = random.Random(8)
    made = [
        Packet(golden.CONTRIBUTE, op, 7, 0, 0, 1, n, 0, 0, words, 0, 0, payload=rng.randbytes(128 * words))
        for n, op in enumerate(golden_ops.OPS)
        for words in {golden_ops.WORDS_UP[op], golden_ops.WORDS_PARTIAL[op]}
    ]
    path = _capture(tmp_path / "values.pcapng", made)
    rows = pcaps.rows(path, ["sumwire.value"], "-o", "sumwire.values:TRUE")
    for packet, row in zip(made, rows, strict=True):
        assert [int(value) for value in row["sumwire.value"].split(",")] == layout.values(packet.op, packet.payload)
    assert all(not row["sumwire.value"] for row in pcaps.rows(path, ["sumwire.value"]))


def test_questions_between_workers_are_known_at_their_own_ports(tmp_path: Path) -> None:
    question = _packet(golden.PROBE).encode() + bytes.fromhex("00112233445566FF")
    other = Host(3, WORKER.mac, bytes([10, 0, 0, 2]), 22335)
    path = _capture(tmp_path / "ask.pcapng", [udp_frame(Host(1, WORKER.mac, WORKER.ip, 40000), other, question)])
    (row,) = pcaps.rows(path, ["sumwire.nonce", "sumwire.kind", "sumwire.bad_length"])
    assert row == {"sumwire.nonce": "0x00112233445566ff", "sumwire.kind": "4", "sumwire.bad_length": ""}


@pytest.mark.parametrize("before_words", [False, True])
def test_an_extra_header_of_the_sources_is_shown(tmp_path: Path, before_words: bool) -> None:
    """As if headers.p4 had one more: the table alone changes, not the dissector."""
    shutil.copy(wireshark.DISSECTOR, tmp_path)
    seal = """{ { name = "seal", bytes = 12, before_words = %s,
      fields = { { name = "key", bits = 32 }, { name = "tag", bits = 64 } } } }"""
    text = wireshark.SPEC.read_text()
    head, between, _ = text.partition("  extra = ")
    assert between
    new = f"{head}{between}{seal % str(before_words).lower()},\n}}\n"
    (tmp_path / wireshark.SPEC.name).write_text(new)
    plain, extra = _packet(golden.CONTRIBUTE, words=8), bytes.fromhex("0000000AFEDCBA9876543210")
    data = plain.encode()
    sealed = data[: golden.HEADER] + extra + data[golden.HEADER :] if before_words else data + extra
    path = _capture(tmp_path / "sealed.pcapng", [plain, udp_frame(WORKER, SWITCH, sealed)])
    names = ["sumwire.seal.key", "sumwire.seal.tag", "sumwire.bad_length"]
    first, second = pcaps.rows(path, names, dissector=tmp_path / wireshark.DISSECTOR.name)
    assert list(first.values()) == ["", "", ""]
    assert list(second.values()) == ["10", "18364758544493064720", ""]


def test_the_path_for_tshark_is_printed() -> None:
    command = [sys.executable, "-m", "sumwire_protocol.wireshark"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == wireshark.DISSECTOR


@pytest.mark.timeout(700)
def test_a_whole_run_in_a_lossy_tree(tmp_path: Path) -> None:
    capture, outcome = play_captured(lossy_tree(1, 1024 * CHUNKS, drop=0.02))
    assert not outcome.violations
    truth.check_seen(capture, tmp_path / "run.pcapng")
