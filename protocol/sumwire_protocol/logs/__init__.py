# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What hosts, switches, aggregator, controller and lab log: one list of events, and the two forms of a line."""
