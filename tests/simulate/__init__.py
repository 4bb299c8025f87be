# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whole jobs in one process and in virtual time: the project's own code of hosts, P4 program, controller and software
aggregator, with a seed that says all that happens to them. docs/simulator.md describes it."""
