# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The protocol's models in Promela (the folder models/), searched exhaustively by Spin: see docs/models.md."""
