# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fault injection for `verify life` and `verify see`: killed and stopped programs, dead links, lost switches."""
