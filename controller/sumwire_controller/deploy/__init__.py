# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Writes configurations to switches over P4Runtime, and reads their tables and counters."""

from commonlib.p4runtime import load_messages

load_messages()
