# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker's part in a job: the handshake, the operations in their order, and the fall-back without the switch."""
