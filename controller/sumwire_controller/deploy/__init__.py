# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Configurations brought onto switches over P4Runtime, and what switches say of themselves."""
