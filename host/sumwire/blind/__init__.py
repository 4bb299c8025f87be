# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Blind aggregation: workers add masks that cancel in the sum, so that a switch sees noise (docs/blind.md)."""
