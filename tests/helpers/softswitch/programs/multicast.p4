// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Multicast with an egress stage per replica, unicast, drops in ingress and in egress.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<16> group;
    bit<16> port;
    bit<16> note;
    bit<16> rid;
    bit<32> instance;
    bit<32> length;
}
header extra_t { bit<32> value; }

struct metadata { bit<16> note; }
struct headers { probe_t probe; extra_t extra; }

parser parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control verify_sums(inout headers hdr, inout metadata meta) { apply { } }

control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        meta.note = hdr.probe.note + 1;
        if (hdr.probe.port == 0xffff) {
            standard.mcast_grp = 9;
            mark_to_drop(standard);
        } else {
            standard.egress_spec = (bit<9>) hdr.probe.port;
            standard.mcast_grp = hdr.probe.group;
        }
    }
}

control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    counter(8, CounterType.packets_and_bytes) copies;

    apply {
        hdr.probe.note = meta.note;
        meta.note = meta.note + 100;
        hdr.probe.rid = standard.egress_rid;
        hdr.probe.port = (bit<16>) standard.egress_port;
        hdr.probe.instance = standard.instance_type;
        hdr.probe.length = standard.packet_length;
        copies.count((bit<32>) standard.egress_port);
        if (standard.egress_rid == 2) {
            hdr.extra.setValid();
            hdr.extra.value = 0x01020304;
        }
        if (standard.egress_port == 4) {
            mark_to_drop(standard);
        }
    }
}

control update_sums(inout headers hdr, inout metadata meta) { apply { } }

control deparse(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.extra);
    }
}

V1Switch(parse(), verify_sums(), ingress(), egress(), update_sums(), deparse()) main;
