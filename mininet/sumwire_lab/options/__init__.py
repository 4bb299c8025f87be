# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a run can be told: options, conditions, systems and tasks, each checked once. Nothing here runs anything."""
