# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of runs and benchmarks, checked once: systems, tasks, conditions, command line. Nothing here runs
anything."""
