// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What the small programs of this folder share: a packet-out says by `task` what its program shall do with it, and what
// leaves by the CPU port has a packet-in header.

#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 255;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> ether_type; }

@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> task; }

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> reason; }

struct headers_t { packet_out_t packet_out; packet_in_t packet_in; ethernet_t ethernet; }
struct metadata_t { bit<7> task; bit<7> reason; bit<2> color; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  state start {
    transition select(std.ingress_port) { CPU_PORT: parse_packet_out; default: parse_ethernet; }
  }
  state parse_packet_out {
    packet.extract(hdr.packet_out);
    meta.task = hdr.packet_out.task;
    transition parse_ethernet;
  }
  state parse_ethernet { packet.extract(hdr.ethernet); transition accept; }
}

control leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  apply {
    if (hdr.packet_out.isValid()) {
      std.egress_spec = hdr.packet_out.egress_port;
      hdr.packet_out.setInvalid();
    }
  }
}

control to_cpu(inout headers_t hdr, in metadata_t meta, in standard_metadata_t std) {
  apply {
    if (std.egress_port == CPU_PORT) {
      hdr.packet_in.setValid();
      hdr.packet_in.ingress_port = std.ingress_port;
      hdr.packet_in.reason = meta.reason;
    }
  }
}

control no_checks(inout headers_t hdr, inout metadata_t meta) { apply {} }
control compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control deparse(packet_out packet, in headers_t hdr) {
  apply { packet.emit(hdr.packet_in); packet.emit(hdr.ethernet); }
}
