# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Data computed from a configuration: job trees, the configuration of each switch, table entries, job files. Pure
functions."""
