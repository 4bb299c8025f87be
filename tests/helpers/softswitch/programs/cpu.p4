// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Packet-out and packet-in with controller headers, a forwarding table of every match kind the control plane must speak,
// direct and indirect counters, a multicast action. CPU port 510.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> reason; }

@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> unused; }

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }

struct metadata { bit<8> unused; }
struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; }

parser parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control verify_sums(inout headers hdr, inout metadata meta) { apply { } }

control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) forwarded;
    counter(16, CounterType.packets_and_bytes) ports;

    action to_port(bit<9> port) { standard.egress_spec = port; }
    action to_group(bit<16> group) { standard.mcast_grp = group; }
    action to_cpu(bit<7> reason) {
        standard.egress_spec = CPU_PORT;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard.ingress_port;
        hdr.packet_in.reason = reason;
    }
    action drop() { mark_to_drop(standard); }

    table forward {
        key = { hdr.ethernet.dst: exact; }
        actions = { to_port; to_group; to_cpu; drop; }
        default_action = drop();
        counters = forwarded;
        size = 8;
    }
    table route {
        key = { hdr.ethernet.src: lpm; }
        actions = { to_port; NoAction; }
        default_action = NoAction();
        size = 8;
    }
    table acl {
        key = { hdr.ethernet.src: ternary; hdr.ethernet.kind: range; standard.ingress_port: optional; }
        actions = { to_cpu; drop; NoAction; }
        const default_action = NoAction();
        size = 8;
    }
    table fixed {
        key = { hdr.ethernet.kind: exact; }
        actions = { to_cpu; NoAction; }
        const default_action = NoAction();
        const entries = { 0x88cc: to_cpu(5); }
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            ports.count((bit<32>) standard.ingress_port);
            forward.apply();
            route.apply();
            acl.apply();
            fixed.apply();
        }
    }
}

control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }

control update_sums(inout headers hdr, inout metadata meta) { apply { } }

control deparse(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(parse(), verify_sums(), ingress(), egress(), update_sums(), deparse()) main;
