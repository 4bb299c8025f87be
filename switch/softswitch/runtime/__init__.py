# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The run-time parts that both engines share: tables, random numbers, impairments, interfaces."""
