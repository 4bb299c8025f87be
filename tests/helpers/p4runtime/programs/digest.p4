// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Task 2 tells the controller the packet's source and its port.

#include "packets.p4"

struct learned_t { bit<48> source; bit<9> port; }

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  leave() leaving;
  apply {
    if (meta.task == 2) { digest<learned_t>(1, { hdr.ethernet.src, std.ingress_port }); }
    leaving.apply(hdr, meta, std);
  }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  to_cpu() cpu;
  apply { cpu.apply(hdr, meta, std); }
}

V1Switch(ParserImpl(), no_checks(), ingress(), egress(), compute(), deparse()) main;
