# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Simulates large networks in virtual time: packets in C, or flows and rounds. `sumwire-lab simulate`."""
