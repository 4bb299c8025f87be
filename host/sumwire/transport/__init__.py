# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The UDP transport: sends and retransmits chunks, and receives results. It knows words, but no tensors.

From the bottom up:

* results for workers that catch up: kept_results, recovery_service, recovery;
* options, counters and estimators: options, stats, congestion;
* the window, a state machine without clock and socket: scheduling, retransmission, buffers, steady, window;
* sockets and what the switch answers: switch_answers, link, connection;
* one exchange: waiting, receiving, exchange;
* the transport: udp.
"""
