# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How a worker follows when the others closed sums without it: results kept, received early, or asked for."""
