# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The software aggregator: does the work of a Sumwire switch on any Linux server, at a UDP socket (docs/aggregator.md).

It speaks the same slot protocol, so workers cannot tell it from a switch. `jobs` reads job files, `state` holds the
slots, `core` turns a batch of datagrams into replies (`reference` in numpy, `kernels` in C), `server`, `sockets` and
`sender` move them, and `processes` divides the slots among processes.
"""
