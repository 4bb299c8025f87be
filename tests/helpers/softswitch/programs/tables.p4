// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Tables of every kind: exact on two keys, lpm, ternary, range, optional, const entries, action_run, hit and miss.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> which;
    bit<8> small;
    bit<16> medium;
    bit<32> address;
    bit<64> trace;
}

struct metadata { bit<8> unused; }
struct headers { probe_t probe; }

parser parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control verify_sums(inout headers hdr, inout metadata meta) { apply { } }

control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) exact_hits;

    action mark(bit<64> value) { hdr.probe.trace = value; }
    action mark_and_send(bit<64> value, bit<9> port) {
        hdr.probe.trace = value;
        standard.egress_spec = port;
    }
    action nothing() { }
    action drop_it() { mark_to_drop(standard); }
    action leave() { hdr.probe.medium = 0xdead; exit; }

    table exact_pair {
        key = { hdr.probe.small: exact; hdr.probe.medium: exact; }
        actions = { mark; mark_and_send; drop_it; nothing; }
        default_action = nothing();
        counters = exact_hits;
        size = 4;
    }
    table longest {
        key = { hdr.probe.address: lpm; }
        actions = { mark; nothing; }
        default_action = mark(0xffff);
        size = 16;
    }
    table masked {
        key = { hdr.probe.small: ternary; hdr.probe.address: ternary; hdr.probe.medium: exact; }
        actions = { mark; nothing; }
        const default_action = nothing();
        size = 16;
    }
    table between {
        key = { hdr.probe.medium: range; hdr.probe.small: exact; }
        actions = { mark; nothing; }
        default_action = nothing();
        size = 16;
    }
    table maybe {
        key = { hdr.probe.small: optional; }
        actions = { mark; nothing; }
        default_action = nothing();
        size = 16;
    }
    table mixed {
        key = { hdr.probe.address: lpm; hdr.probe.small: ternary; hdr.probe.medium: range; }
        actions = { mark; nothing; }
        default_action = nothing();
        size = 16;
    }
    table fixed_exact {
        key = { hdr.probe.small: exact; }
        actions = { mark; nothing; leave; }
        const default_action = nothing();
        const entries = {
            1: mark(0x11);
            2: mark(0x22);
            3: leave();
        }
    }
    table fixed_ternary {
        key = { hdr.probe.small: ternary; hdr.probe.medium: range; }
        actions = { mark; nothing; }
        default_action = mark(0xee);
        const entries = {
            (0x10 &&& 0xf0, 0 .. 99): mark(1);
            (0x10 &&& 0xf0, _): mark(2);
            (_, 500 .. 600): mark(3);
            (0x42, _): mark(4);
        }
    }

    table fixed_lpm {
        key = { hdr.probe.address: lpm; }
        actions = { mark; nothing; }
        const default_action = nothing();
        const entries = {
            0x0a000000 &&& 0xff000000: mark(1);
            0x0a010000 &&& 0xffff0000: mark(2);
            0x0a010203: mark(3);
        }
    }

    apply {
        standard.egress_spec = 1;
        if (hdr.probe.which == 0) {
            if (exact_pair.apply().hit) {
                hdr.probe.which = 0xaa;
            } else {
                hdr.probe.which = 0xbb;
            }
        } else if (hdr.probe.which == 1) {
            longest.apply();
        } else if (hdr.probe.which == 2) {
            masked.apply();
        } else if (hdr.probe.which == 3) {
            between.apply();
        } else if (hdr.probe.which == 4) {
            switch (fixed_exact.apply().action_run) {
                mark: { standard.egress_spec = 7; }
                nothing: { standard.egress_spec = 8; }
            }
        } else if (hdr.probe.which == 5) {
            fixed_ternary.apply();
        } else if (hdr.probe.which == 6) {
            maybe.apply();
        } else if (hdr.probe.which == 7) {
            fixed_lpm.apply();
        } else if (hdr.probe.which == 8) {
            mixed.apply();
        }
        hdr.probe.medium = hdr.probe.medium + 1;
    }
}

control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }

control update_sums(inout headers hdr, inout metadata meta) { apply { } }

control deparse(packet_out packet, in headers hdr) { apply { packet.emit(hdr.probe); } }

V1Switch(parse(), verify_sums(), ingress(), egress(), update_sums(), deparse()) main;
