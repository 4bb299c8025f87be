# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker's part in one job: handshake, order of operations, and the fall-back without the switch."""
