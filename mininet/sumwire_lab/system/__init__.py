# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The operating system below a run: processes, their leftovers, barriers, and the kernel's counters of lost packets."""
