# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Authentication tags: 64 bits behind every packet of a job with a key (docs/security.md)."""
