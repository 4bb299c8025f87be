# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks over UDP: which go out when, what is sent again, and what comes back. Knows words, no tensors."""
