# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trace analysis: captures, the packets of Sumwire in them, and the timeline of each chunk (`sumwire decode`)."""
