# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The protocol's Promela models (folder models/), which Spin searches exhaustively: see docs/models.md."""
