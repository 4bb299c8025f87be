# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What was on the wire: captures, the packets of Sumwire in them, and a chunk's life from its first packet on."""
