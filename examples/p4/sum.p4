// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Every host sends a number. The switch adds them, and answers every host with the sum.

#include <core.p4>
#include <v1model.p4>

header message_h {
    bit<8> slot;  // numbers with the same slot are added
    bit<32> number;
}

struct metadata_t {
    bit<32> sender;    // the sender's bit
    bit<32> everyone;  // the bits of all hosts
    bit<32> arrived;   // the bits of the hosts whose message is in
    bit<32> total;
}

#include "around.p4"

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(256) arrived;
    register<bit<32>>(256) totals;

    action host(bit<32> bit_of_host, bit<32> everyone, bit<16> group) {
        meta.sender = bit_of_host;
        meta.everyone = everyone;
        standard.mcast_grp = group;
    }

    action drop() {
        mark_to_drop(standard);
    }

    table hosts {
        key = {
            standard.ingress_port : exact;
        }
        actions = {
            host;
            drop;
        }
        default_action = drop();
    }

    apply {
        if (!hdr.message.isValid()) {
            drop();
        } else if (hosts.apply().hit) {
            bit<32> slot = (bit<32>)hdr.message.slot;
            arrived.read(meta.arrived, slot);
            totals.read(meta.total, slot);
            // A number that comes twice is added once.
            if (meta.arrived & meta.sender == 0) {
                meta.arrived = meta.arrived | meta.sender;
                meta.total = meta.total + hdr.message.number;
            }
            if (meta.arrived == meta.everyone) {
                // This packet becomes the answer, and the slot is free again.
                hdr.message.number = meta.total;
                meta.arrived = 0;
                meta.total = 0;
            } else {
                drop();
            }
            arrived.write(slot, meta.arrived);
            totals.write(slot, meta.total);
        }
    }
}

V1Switch(MyParser(), NoChecksum(), MyIngress(), MyEgress(), NoChecksum(), MyDeparser()) main;
