# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with a command of their own: all-reduce, switch, codec and aggregator."""
