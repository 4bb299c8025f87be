// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// One table per rule of the P4Runtime server: every match kind, direct and indirect counters,
// const entries, initial entries, const default, no key, and packet-in/packet-out headers.

#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 255;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> ether_type; }

@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> tag; }

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> tag; }

struct headers_t { packet_out_t packet_out; packet_in_t packet_in; ethernet_t ethernet; }
struct metadata_t { bit<12> vlan; bit<20> wide; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  state start {
    transition select(std.ingress_port) { CPU_PORT: parse_packet_out; default: parse_ethernet; }
  }
  state parse_packet_out { packet.extract(hdr.packet_out); transition parse_ethernet; }
  state parse_ethernet { packet.extract(hdr.ethernet); transition accept; }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  direct_counter(CounterType.packets_and_bytes) exact_hits;
  counter(8, CounterType.packets_and_bytes) seen;

  action forward(bit<9> port) { std.egress_spec = port; }
  action mark(bit<12> vlan, bit<20> wide) { meta.vlan = vlan; meta.wide = wide; }
  action drop() { mark_to_drop(std); }

  table exact_t {
    key = { hdr.ethernet.dst: exact @name("dst"); }
    actions = { forward; drop; @tableonly mark; @defaultonly NoAction; }
    default_action = drop();
    counters = exact_hits;
    size = 4;
  }
  table lpm_t {
    key = { hdr.ethernet.src: lpm @name("src"); }
    actions = { forward; drop; }
    default_action = drop();
    size = 16;
  }
  table ternary_t {
    key = { meta.vlan: ternary @name("vlan"); hdr.ethernet.ether_type: exact @name("type"); }
    actions = { mark; drop; }
    size = 16;
  }
  table range_t {
    key = { hdr.ethernet.ether_type: range @name("type"); }
    actions = { mark; drop; }
    size = 16;
  }
  table const_t {
    key = { hdr.ethernet.ether_type: ternary @name("type"); }
    actions = { mark; drop; }
    const entries = {
      0x0806: mark(1, 2);
      0x0800 &&& 0xff00: drop();
    }
    const default_action = drop();
  }
  table optional_t {
    key = { hdr.ethernet.dst: optional @name("dst"); hdr.ethernet.ether_type: exact @name("type"); }
    actions = { forward; drop; }
    default_action = drop();
  }
  table initial_t {
    key = { hdr.ethernet.ether_type: exact @name("type"); }
    actions = { forward; drop; }
    default_action = drop();
    entries = {
      const 0x0806: forward(1);
      0x0800: forward(2);
    }
    size = 8;
  }
  table mixed_t {
    key = {
      hdr.ethernet.ether_type: range @name("type");
      hdr.ethernet.dst: lpm @name("dst");
      hdr.ethernet.src: ternary @name("src");
      meta.vlan: exact @name("vlan");
    }
    actions = { forward; drop; }
    default_action = drop();
  }
  table keyless_t {
    actions = { forward; drop; }
    default_action = forward(7);
  }

  apply {
    seen.count((bit<32>)(std.ingress_port & 7));
    exact_t.apply();
    lpm_t.apply();
    ternary_t.apply();
    range_t.apply();
    const_t.apply();
    optional_t.apply();
    initial_t.apply();
    mixed_t.apply();
    keyless_t.apply();
    if (hdr.packet_out.isValid()) {
      std.egress_spec = hdr.packet_out.egress_port;
      hdr.packet_in.setValid();
      hdr.packet_in.ingress_port = std.ingress_port;
      hdr.packet_in.tag = hdr.packet_out.tag;
      hdr.packet_out.setInvalid();
    }
  }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
  apply {
    if (std.egress_port != CPU_PORT) { hdr.packet_in.setInvalid(); }
  }
}

control no_checks(inout headers_t hdr, inout metadata_t meta) { apply {} }
control compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control deparse(packet_out packet, in headers_t hdr) {
  apply { packet.emit(hdr.packet_in); packet.emit(hdr.ethernet); }
}

V1Switch(ParserImpl(), no_checks(), ingress(), egress(), compute(), deparse()) main;
