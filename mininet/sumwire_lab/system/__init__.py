# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The machine below a run: processes, what they leave behind, barriers, and the kernel's counters of lost packets."""
