# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Small HTTP servers and questions to them, where whoever is at the other end may be hostile."""
