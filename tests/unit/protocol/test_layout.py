# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The packet's parts as the tools that show packets know them, against the golden model."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from golden import ops as golden
from golden.packets import Packet
from helpers.p4_tools import constants
from helpers.paths import ROOT
from sumwire_protocol import constants as p4
from sumwire_protocol import layout

INCLUDE = ROOT / "p4src/include"
TAG = "header seal_h {\n    bit<32> key;\n    bit<64> tag;\n}\n\n"


@pytest.mark.parametrize("op", golden.OPS)
def test_values_are_the_golden_models(op: int) -> None:
    payload = random.Random(op).randbytes(golden.WORDS_UP[op] * golden.WORD)
    table = list(range(16))
    held = golden.read(op, payload, table, partial=False)
    right = np.unpackbits(held.low) if isinstance(held, golden.Signs) else held
    assert layout.values(op, payload) == right.tolist()


@pytest.mark.parametrize("op", [golden.THC, golden.VOTE])
def test_values_of_partial_results_are_sums_and_counters(op: int) -> None:
    payload = random.Random(op).randbytes(golden.WORDS_PARTIAL[op] * golden.WORD)
    held = golden.read(op, payload, range(256), partial=True)
    assert not isinstance(held, golden.Signs)
    assert layout.values(op, payload) == held.tolist()


@pytest.mark.parametrize(("op", "size"), [(0, 128), (99, 128), (golden.THC, 100), (golden.VOTE, 384), (golden.THC, 0)])
def test_what_cannot_be_cut_has_no_values(op: int, size: int) -> None:
    assert layout.values(op, bytes(size)) == []


def test_the_header_is_taken_apart_as_the_golden_model_does() -> None:
    packet = Packet(
        5, 3, 0x0102, 0x0304, 5, 6, 0x0708090A, 0x0B0C0D0E, 0x0F, 0, 0x1011, 0x121314, cut=0x15, token=2**63
    )
    found = layout.unpacked(packet.encode())
    assert found == {name: getattr(packet, name) for name in Packet._fields if name not in ("payload", "tag")}


def test_every_flag_kind_and_reason_has_its_name() -> None:
    assert layout.flag_names(0xFF) == tuple(name for _, name in sorted(layout.codes("FLAG_").items()))
    assert len(layout.FLAGS) == 8
    assert layout.KINDS[p4.KIND_INFORM] == "INFORM"
    assert layout.REASONS[p4.REJECT_TOKEN] == "TOKEN"
    assert layout.meaning("REJECT_TOKEN") == "of a run that is not open at this switch"
    assert layout.meaning("REJECT_VERSION") == ""


def test_only_the_headers_above_the_switch_are_not_on_the_wire() -> None:
    """A header that this list lacks is shown by its fields. Say here which packets have it."""
    named = [name for name, _ in p4.HEADERS]
    assert named[:5] == ["ethernet", "arp", "ipv4", "udp", "sumwire"]
    assert "above" not in named
    # More than one, or one in front of the payload: scapy_layer.py must be told how they lie.
    assert len(layout.EXTRA) <= 1
    assert not any(header.before_words for header in layout.EXTRA)


def _with_seal(folder: Path, after: str) -> Path:
    shutil.copytree(INCLUDE, folder / "include", dirs_exist_ok=True)
    path = folder / "include" / "headers.p4"
    text = path.read_text().replace("// Words of payload", TAG + "// Words of payload")
    path.write_text(text.replace(f"    {after};\n", f"    {after};\n    seal_h seal;\n"))
    return folder / "include"


@pytest.mark.parametrize(("after", "before_words"), [("sumwire_h sumwire", True), ("pair_h pair6", False)])
def test_a_header_that_is_new_in_the_p4_sources_is_known(tmp_path: Path, after: str, before_words: bool) -> None:
    made = {name: tuple(fields) for name, fields in constants.headers(_with_seal(tmp_path, after))}
    assert made["seal"] == (("key", 32), ("tag", 64))
    found = {header.name: header for header in layout.extra_headers(tuple(made.items()))}
    assert (found["seal"].bytes, found["seal"].before_words) == (12, before_words)


def test_an_extra_header_is_there_if_the_packet_is_longer_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = layout.ExtraHeader("seal", (("key", 32), ("tag", 64)), before_words=False)
    monkeypatch.setattr(layout, "EXTRA", (extra,))
    plain = Packet(1, 2, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, payload=bytes(range(128))).encode()
    assert layout.parts(plain) == (b"", bytes(range(128)), b"")
    assert layout.parts(plain + b"k" * 4 + b"t" * 8) == (b"kkkktttttttt", bytes(range(128)), b"")
    assert layout.parts(plain + b"rest") == (b"", bytes(range(128)), b"rest")


def test_a_header_that_the_sources_lack_is_refused(tmp_path: Path) -> None:
    include = _with_seal(tmp_path, "sumwire_h sumwire")
    path = include / "headers.p4"
    path.write_text(path.read_text().replace(TAG, ""))
    with pytest.raises(constants.P4SourceError, match="seal_h"):
        constants.headers(include)
