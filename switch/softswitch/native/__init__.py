# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The native engine: runs a program as compiled C, with a run-time library."""
