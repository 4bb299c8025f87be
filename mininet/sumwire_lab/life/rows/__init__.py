# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One experiment per row: what it does to a run, and what it records. `verify.rows.life` judges the records."""
