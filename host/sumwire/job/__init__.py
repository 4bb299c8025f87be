# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker's part in one job: the greeting, the operations and their order, and the fall-back without the switch."""
