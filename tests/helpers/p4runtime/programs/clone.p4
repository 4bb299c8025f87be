// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Task 1 clones the packet to session 5, as it came in. The clone has reason 1 and instance type 1.

#include "packets.p4"

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  leave() leaving;
  apply {
    if (meta.task == 1) { clone(CloneType.I2E, 5); }
    leaving.apply(hdr, meta, std);
  }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  to_cpu() cpu;
  apply {
    if (std.instance_type == 1) { meta.reason = 1; hdr.packet_out.setInvalid(); }
    cpu.apply(hdr, meta, std);
  }
}

V1Switch(ParserImpl(), no_checks(), ingress(), egress(), compute(), deparse()) main;
