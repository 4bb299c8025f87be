# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The wires between samples and bmv2 carry frames as they are, with 802.1Q tags."""

from __future__ import annotations

import socket

import pytest
from fuzz.samples import bmv2

pytestmark = pytest.mark.root

ADDRESSES = bytes.fromhex("020000000001020000000002")
_ALL = 3


@pytest.mark.parametrize("types", ["0800", "810030050800", "88a8200781003005 0800", "810000058100000608 00"])
def test_a_frame_arrives_with_its_tags(types: str) -> None:
    frame = ADDRESSES + bytes.fromhex(types) + bytes(50)
    with bmv2.wires() as wires, socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as near:
        near.bind((f"{wires.prefix}s3", _ALL))
        near.send(frame)
        assert wires.answers(0, ADDRESSES + bytes(60), 1) == [(3, frame)]
