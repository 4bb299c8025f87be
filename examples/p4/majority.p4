// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Every host sends 64 votes, a bit each. The switch answers with what most of them say, and with a tie as 1. It counts
// in bit planes: bit i of `ones`, `twos` and `fours` is the number of hosts that voted 1 in place i.

#include <core.p4>
#include <v1model.p4>

header message_h {
    bit<8> slot;
    bit<64> votes;
}

struct metadata_t {
    bit<32> sender;    // the sender's bit
    bit<32> everyone;  // the bits of all hosts
    bit<32> arrived;   // the bits of the hosts whose message is in
    bit<64> ones;
    bit<64> twos;
    bit<64> fours;
}

#include "around.p4"

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(256) arrived;
    register<bit<64>>(256) ones;
    register<bit<64>>(256) twos;
    register<bit<64>>(256) fours;

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

    // A bit is added to each of 64 counters at once.
    action add_votes() {
        meta.fours = meta.fours | (meta.twos & meta.ones & hdr.message.votes);
        meta.twos = meta.twos ^ (meta.ones & hdr.message.votes);
        meta.ones = meta.ones ^ hdr.message.votes;
    }

    // At least two of four hosts.
    action decide() {
        hdr.message.votes = meta.fours | meta.twos;
    }

    action clear() {
        meta.arrived = 0;
        meta.ones = 0;
        meta.twos = 0;
        meta.fours = 0;
    }

    apply {
        if (!hdr.message.isValid()) {
            drop();
        } else if (hosts.apply().hit) {
            bit<32> slot = (bit<32>)hdr.message.slot;
            arrived.read(meta.arrived, slot);
            ones.read(meta.ones, slot);
            twos.read(meta.twos, slot);
            fours.read(meta.fours, slot);
            if (meta.arrived & meta.sender == 0) {
                meta.arrived = meta.arrived | meta.sender;
                add_votes();
            }
            if (meta.arrived == meta.everyone) {
                decide();
                clear();
            } else {
                drop();
            }
            arrived.write(slot, meta.arrived);
            ones.write(slot, meta.ones);
            twos.write(slot, meta.twos);
            fours.write(slot, meta.fours);
        }
    }
}

V1Switch(MyParser(), NoChecksum(), MyIngress(), MyEgress(), NoChecksum(), MyDeparser()) main;
