# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What both engines stand on while packets run: tables, random numbers, impairments, interfaces."""
