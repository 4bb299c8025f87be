// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Every host sends a number. The switch answers with the largest one and says whose it is: the first host's that sent it.

#include <core.p4>
#include <v1model.p4>

header message_h {
    bit<8> slot;
    bit<32> number;
    bit<32> whose;  // in an answer: the bit of the host
}

struct metadata_t {
    bit<32> sender;    // the sender's bit
    bit<32> everyone;  // the bits of all hosts
    bit<32> arrived;   // the bits of the hosts whose message is in
    bit<32> number;
    bit<32> whose;
}

#include "around.p4"

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(256) arrived;
    register<bit<32>>(256) numbers;
    register<bit<32>>(256) owners;

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
            numbers.read(meta.number, slot);
            owners.read(meta.whose, slot);
            if (meta.arrived == 0 || hdr.message.number > meta.number) {
                meta.number = hdr.message.number;
                meta.whose = meta.sender;
            }
            meta.arrived = meta.arrived | meta.sender;
            if (meta.arrived == meta.everyone) {
                hdr.message.number = meta.number;
                hdr.message.whose = meta.whose;
                meta.arrived = 0;
            } else {
                drop();
            }
            arrived.write(slot, meta.arrived);
            numbers.write(slot, meta.number);
            owners.write(slot, meta.whose);
        }
    }
}

V1Switch(MyParser(), NoChecksum(), MyIngress(), MyEgress(), NoChecksum(), MyDeparser()) main;
