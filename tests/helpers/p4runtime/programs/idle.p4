// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A table whose entries grow old: every packet looks its source up.

#include "packets.p4"

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  leave() leaving;
  action seen() {}
  table hosts {
    key = { hdr.ethernet.src: exact @name("src"); }
    actions = { seen; NoAction; }
    default_action = NoAction();
    support_timeout = true;
    size = 64;
  }
  apply {
    hosts.apply();
    leaving.apply(hdr, meta, std);
  }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  to_cpu() cpu;
  apply { cpu.apply(hdr, meta, std); }
}

V1Switch(ParserImpl(), no_checks(), ingress(), egress(), compute(), deparse()) main;
