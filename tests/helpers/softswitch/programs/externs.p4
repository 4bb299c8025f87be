// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A value set, meters, a digest, action profiles, and a table with idle timeout.
#include <core.p4>
#include <v1model.p4>

header packet_t {
    bit<8> what;
    bit<8> index;
    bit<8> colour;
    bit<8> known;
}

struct headers_t {
    packet_t packet;
}

struct metadata_t {
    bit<2> colour;
    bit<8> known;
}

struct pair_t {
    @match(exact) bit<8> what;
    @match(exact) bit<8> index;
}

struct learned_t {
    bit<9> port;
    bit<8> what;
    bit<16> twice;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<pair_t>(4) known_pairs;
    state start {
        packet.extract(hdr.packet);
        transition select(hdr.packet.what, hdr.packet.index) {
            known_pairs: known;
            default: accept;
        }
    }
    state known {
        meta.known = 1;
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    meter(4, MeterType.packets) packets;
    meter(4, MeterType.bytes) bytes;
    direct_meter<bit<2>>(MeterType.packets) of_rows;
    action_profile(16) profile;
    action_selector(HashAlgorithm.crc16, 16, 10) choices;

    action colour_row() {
        of_rows.read(meta.colour);
    }
    action mark(bit<8> value) {
        hdr.packet.index = value;
    }
    table metered {
        key = { hdr.packet.what: exact; }
        actions = { colour_row; NoAction; }
        meters = of_rows;
        default_action = NoAction();
        support_timeout = true;
    }
    table by_profile {
        key = { hdr.packet.what: exact; }
        actions = { mark; }
        implementation = profile;
    }
    table by_selector {
        key = { hdr.packet.what: exact; hdr.packet.index: selector; }
        actions = { mark; NoAction; }
        implementation = choices;
    }
    apply {
        meta.colour = 3;
        if (hdr.packet.what == 1) {
            packets.execute_meter((bit<32>)hdr.packet.index, meta.colour);
        } else if (hdr.packet.what == 2) {
            bytes.execute_meter((bit<32>)hdr.packet.index, meta.colour);
        } else if (hdr.packet.what == 3) {
            digest<learned_t>(1, { standard.ingress_port, hdr.packet.what, (bit<16>)hdr.packet.index << 1 });
        }
        metered.apply();
        by_profile.apply();
        by_selector.apply();
        hdr.packet.colour = (bit<8>)meta.colour;
        hdr.packet.known = meta.known;
        standard.egress_spec = 1;
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
