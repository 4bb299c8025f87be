# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes by hand: 42 bytes of Ethernet, IPv4 and UDP, 32 of Sumwire; 66 of Ethernet, IPv4 and TCP."""

from __future__ import annotations

import pytest
from sumwire_lab.system.counters import LinkBytes
from sumwire_lab.training.timing import PacketBytes, job_counts, on_wire

NOTHING = job_counts({})


def test_a_train_of_tcp_is_the_packets_that_it_is_cut_into() -> None:
    """One train with three full segments and one of 100 bytes; and an acknowledgement."""
    up, down = on_wire(LinkBytes(tx=66 + 3 * 1448 + 100, tx_packets=1, rx=66, rx_packets=1), NOTHING, NOTHING)
    assert up == PacketBytes(4 * 66 + 3 * 1448 + 100, 4 * 66)
    assert down == PacketBytes(66, 66)


def test_small_packets_of_tcp_are_as_many_as_were_counted() -> None:
    up, _ = on_wire(LinkBytes(tx=5 * (66 + 10), tx_packets=5, rx=0), NOTHING, NOTHING)
    assert up == PacketBytes(5 * 76, 5 * 66)


@pytest.mark.parametrize("messages", [1, 3, 10])
def test_a_job_s_packets_count_the_same_in_trains_of_any_length(messages: int) -> None:
    packets, payload = 10, 512
    before = job_counts({"packets_sent": 5, "messages_sent": 5, "bytes_sent": 500})
    sent = {"packets_sent": 15, "messages_sent": 5 + messages, "bytes_sent": 500 + packets * (74 + payload)}
    counted = messages * 42 + packets * (32 + payload)
    up, _ = on_wire(LinkBytes(tx=counted, tx_packets=messages, rx=0), before, job_counts(sent))
    assert up == PacketBytes(packets * (74 + payload), packets * 74)


def test_the_rest_of_what_a_job_s_link_carried_is_tcp() -> None:
    after = job_counts({"packets_received": 64, "messages_received": 1, "bytes_received": 64 * 586})
    counted = 42 + 64 * 544 + 66 + 1000
    _, down = on_wire(LinkBytes(tx=0, rx=counted, rx_packets=2), NOTHING, after)
    assert down == PacketBytes(64 * 586 + 1066, 64 * 74 + 66)
