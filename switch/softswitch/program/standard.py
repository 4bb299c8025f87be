# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""v1model's standard_metadata: its name, its fields, and the values that the architecture sets."""

STANDARD = "standard_metadata"
HIDDEN = "#hidden"  # metadata of the loader's own: next elements of stacks, lengths, requests to the architecture
PACKET_LENGTH = "packet_length"
DROP_PORT = 511  # mark_to_drop's egress_spec, if nothing else is said
# instance_type of a packet that did not come in at a port as it is
INSTANCE_INGRESS_CLONE = 1
INSTANCE_EGRESS_CLONE = 2
INSTANCE_RECIRCULATED = 4
INSTANCE_REPLICA = 5
INSTANCE_RESUBMITTED = 6
# Bits. The engines write these fields, and rely on the widths where they leave out a check of an index.
STANDARD_WIDTHS = {
    "ingress_port": 9,
    "egress_spec": 9,
    "egress_port": 9,
    "instance_type": 32,
    "packet_length": 32,
    "enq_timestamp": 32,
    "enq_qdepth": 19,
    "deq_timedelta": 32,
    "deq_qdepth": 19,
    "ingress_global_timestamp": 48,
    "egress_global_timestamp": 48,
    "mcast_grp": 16,
    "egress_rid": 16,
    "checksum_error": 1,
    "parser_error": 32,
    "priority": 3,
}
