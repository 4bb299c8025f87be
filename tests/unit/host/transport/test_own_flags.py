# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Flags that a contribution has however often it is sent."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.transport.buffers import Buffers, Pool
from sumwire.transport.retransmission import SendKind
from sumwire.wire.packets import headers
from sumwire_protocol import constants as p4


@pytest.mark.parametrize("kind", [kind for kind in SendKind if kind.name != "PROBE"])
def test_marked_contributions_keep_their_flags(kind: SendKind) -> None:
    buffers = Buffers(configs(job_mapping(2, 8))[0], p4.OP_SIGN, 3, bucket=0, first_sequence=0, up=Pool(), down=Pool())
    buffers.mark(1, np.array([p4.FLAG_OVERFLOW], np.uint8))
    flags = headers(buffers.packets)["flags"]
    assert flags.tolist() == [0, p4.FLAG_OVERFLOW, 0]
    buffers.prepare(np.arange(3), kind, 1)
    assert (headers(buffers.packets)["flags"] & p4.FLAG_OVERFLOW).tolist() == [0, p4.FLAG_OVERFLOW, 0]
    assert (headers(buffers.packets)["flags"] & p4.FLAG_RESYNC).all()
    closing = headers(buffers.closing_flush(1).reshape(1, -1))["flags"][0]
    assert closing & p4.FLAG_OVERFLOW
    assert closing & p4.FLAG_FLUSH
