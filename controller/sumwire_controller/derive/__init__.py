# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What follows from a configuration: trees, each switch's part, table entries, job files. Pure."""
