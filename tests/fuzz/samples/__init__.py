# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs v1model programs that others wrote, with their packet tests: p4c's samples, from a checkout of p4c."""
