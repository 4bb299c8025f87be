# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The software aggregator: what a Sumwire switch does, on a UDP socket of any Linux server (docs/aggregator.md).

Same packets, same slot protocol, so workers cannot tell it from a switch. `jobs` reads the job files that workers use,
`state` holds the slots, `core` turns a batch of datagrams into replies (`reference` with numpy, `kernels` in C),
`server` and `sockets` move them, `processes` shares the slots out among processes.
"""
