# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A P4 program as both engines see it: its intermediate form, its loader, and the analysis of what it reads and
writes."""
