# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The UDP transport: which chunks are sent when, what is retransmitted, and the results. Knows words, but no tensors.

From the bottom up:

* counters, estimators and options: stats, rtt, budget, congestion, delivery, patience, options, window_options;
* the window, a state machine without clock and socket: in_flight, turns, early_closing, fast_retransmit,
  timers, retries, window;
* results for workers that catch up: catchup/;
* the switch's word: hello, switch_errors;
* one exchange: buffers, runs, link, connection, sending, waiting, result_errors, receiving, missing_workers, exchange;
* the transport: questions, udp.
"""
