# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of the benchmark page: each suite plans its cases, measures them and presents its rows."""
