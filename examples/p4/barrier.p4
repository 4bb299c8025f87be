// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A barrier: each host says how far it is. When all have reached a step, all are told.

#include <core.p4>
#include <v1model.p4>

header message_h {
    bit<32> step;
}

struct metadata_t {
    bit<32> sender;    // the sender's bit
    bit<32> everyone;  // the bits of all hosts
    bit<32> arrived;   // the bits of the hosts whose message is in
    bit<32> step;  // the step that hosts are arriving at
}

#include "around.p4"

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(1) steps;
    register<bit<32>>(1) arrived;

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
            steps.read(meta.step, 0);
            arrived.read(meta.arrived, 0);
            if (hdr.message.step == meta.step) {
                meta.arrived = meta.arrived | meta.sender;
                if (meta.arrived == meta.everyone) {
                    steps.write(0, meta.step + 1);
                    meta.arrived = 0;
                } else {
                    drop();
                }
                arrived.write(0, meta.arrived);
            } else if (hdr.message.step + 1 == meta.step) {
                // The sender has missed that all are there: it alone is told again.
                standard.mcast_grp = 0;
                standard.egress_spec = standard.ingress_port;
            } else {
                drop();
            }
        }
    }
}

V1Switch(MyParser(), NoChecksum(), MyIngress(), MyEgress(), NoChecksum(), MyDeparser()) main;
