# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What hosts, switches, aggregator and controller tell of themselves: one list of metrics, and how they are served."""
