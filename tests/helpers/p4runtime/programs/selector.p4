// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// One table with an action profile and one with a selector, which chooses by the source. The packet's reason tells what ran.

#include "packets.p4"

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  leave() leaving;
  action_profile(8) members;
  action_selector(HashAlgorithm.crc16, 32w64, 32w14) chosen;
  action mark(bit<7> reason) { meta.reason = reason; }
  table profiled {
    key = { hdr.ethernet.ether_type: exact @name("type"); }
    actions = { mark; NoAction; }
    implementation = members;
    size = 64;
  }
  table selected {
    key = { hdr.ethernet.dst: exact @name("dst"); hdr.ethernet.src: selector; }
    actions = { mark; NoAction; }
    implementation = chosen;
    size = 64;
  }
  apply {
    profiled.apply();
    selected.apply();
    leaving.apply(hdr, meta, std);
  }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  to_cpu() cpu;
  apply { cpu.apply(hdr, meta, std); }
}

V1Switch(ParserImpl(), no_checks(), ingress(), egress(), compute(), deparse()) main;
