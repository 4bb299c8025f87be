# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Shared by hosts and controller: the P4 program's constants, its ops, and its compiled form."""
