// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Task 3 asks an indirect meter for the packet's color, and a table asks a direct one. The packet's reason is the color.

#include "packets.p4"

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  leave() leaving;
  meter(4, MeterType.packets) rates;
  direct_meter<bit<2>>(MeterType.bytes) host_rates;
  action measure() { host_rates.read(meta.color); }
  table hosts {
    key = { hdr.ethernet.src: exact @name("src"); }
    actions = { measure; NoAction; }
    default_action = NoAction();
    meters = host_rates;
    size = 64;
  }
  apply {
    if (meta.task == 3) { rates.execute_meter(1, meta.color); }
    hosts.apply();
    meta.reason = (bit<7>) meta.color;
    leaving.apply(hdr, meta, std);
  }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  to_cpu() cpu;
  apply { cpu.apply(hdr, meta, std); }
}

V1Switch(ParserImpl(), no_checks(), ingress(), egress(), compute(), deparse()) main;
