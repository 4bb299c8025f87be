# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""v1model's standard_metadata: its name, and values that the architecture gives to its fields."""

STANDARD = "standard_metadata"
PACKET_LENGTH = "packet_length"
DROP_PORT = 511  # mark_to_drop's egress_spec
INSTANCE_REPLICA = 5  # instance_type of a packet that replication made
