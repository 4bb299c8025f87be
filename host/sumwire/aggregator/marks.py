# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""IPv4's TOS byte, in packets and in the replies to them.

Its upper six bits are the DSCP: three of priority, two of drop class, one that is 0. The lower two are ECN (RFC 3168).
A reply keeps the priority of the packet that it answers. Its drop class is 0, and a queue may mark it.
"""

from __future__ import annotations

from typing import Final

from sumwire_protocol import constants as p4

from sumwire.wire import controls

PRIORITY_BITS: Final = p4.DSCP_PRIORITY << 2
ECN_BITS: Final = controls.ECN_BITS
# Of replies to packets without tags.
PLAIN_REPLY: Final = p4.ECN_ECT
