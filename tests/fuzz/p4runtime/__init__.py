# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fuzzed P4Runtime requests against a model of what the switch must hold. Shares no code with the server."""
