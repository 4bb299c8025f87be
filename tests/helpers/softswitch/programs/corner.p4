// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Corners where implementations differ: invalid headers, header copies, indices past the end, packet_length after
// headers come and go, hashes over invalid headers, exit in egress, long shifts.
#include <core.p4>
#include <v1model.p4>

header ask_t { bit<8> what; bit<8> index; bit<16> value; bit<32> answer; }
header pair_t { bit<4> high; bit<12> low; bit<16> more; }

struct metadata { bit<16> sum; bit<32> answer; }
struct headers { ask_t ask; pair_t first; pair_t second; }

parser parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ask);
        transition select(hdr.ask.what[7:7]) {
            1: with_first;
            default: accept;
        }
    }
    state with_first {
        packet.extract(hdr.first);
        transition accept;
    }
}

control verify_sums(inout headers hdr, inout metadata meta) { apply { } }

control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    register<bit<32>>(4) cells;
    counter(4, CounterType.packets) events;

    action again() { hdr.first.setInvalid(); hdr.first.setValid(); }
    action set_valid() { hdr.first.setValid(); }
    action remove() { hdr.first.setInvalid(); }
    action write_invalid() { hdr.second.low = 0xabc; hdr.second.more = 0x1111; }
    action write_then_valid() { hdr.second.low = 0xabc; hdr.second.setValid(); }
    action copy() { hdr.second = hdr.first; }
    action copy_and_change() { hdr.second = hdr.first; hdr.second.high = 0xf; hdr.first.low = 7; }
    action out_of_range() {
        cells.write((bit<32>) hdr.ask.index, (bit<32>) hdr.ask.value);
        cells.read(meta.answer, (bit<32>) hdr.ask.index);
        events.count((bit<32>) hdr.ask.index);
        hdr.ask.answer = meta.answer;
    }
    action divide() { hdr.ask.answer = (bit<32>) (hdr.ask.value * 7); }
    action shift() { hdr.ask.answer = (hdr.ask.answer << hdr.ask.index) | ((bit<32>) hdr.ask.value >> hdr.ask.index); }
    action hash_all() {
        hash(meta.sum, HashAlgorithm.csum16, 16w0, { hdr.first.high, hdr.first.low, hdr.first.more, hdr.ask.value },
             32w0x10000);
        hdr.ask.answer = (bit<32>) meta.sum;
    }
    action signed_compare() {
        int<16> v = (int<16>) hdr.ask.value;
        hdr.ask.answer = 0;
        if (v < -5) { hdr.ask.answer = 1; } else if (v >= 100) { hdr.ask.answer = 2; }
        hdr.ask.index = (bit<8>) (v * 3)[7:0];
    }
    action identity_hash() {
        hash(meta.answer, HashAlgorithm.identity, 32w0, { hdr.ask.value, hdr.ask.index }, 64w0x100000000);
        hdr.ask.answer = meta.answer;
    }
    action xor_hash() {
        hash(meta.sum, HashAlgorithm.xor16, 16w0, { hdr.ask.value, hdr.ask.what, hdr.ask.index }, 32w0x10000);
        hdr.ask.answer = (bit<32>) meta.sum;
    }

    table todo {
        key = { hdr.ask.what: exact; }
        actions = { again; set_valid; remove; write_invalid; write_then_valid; copy; copy_and_change; out_of_range; divide;
                    shift; hash_all; signed_compare; identity_hash; xor_hash; NoAction; }
        const default_action = NoAction();
        const entries = {
            0x80: again();
            0x81: set_valid();
            0x82: remove();
            0x83: write_invalid();
            0x84: write_then_valid();
            0x85: copy();
            0x86: copy_and_change();
            0x8e: hash_all();
            0x01: set_valid();
            0x02: remove();
            0x03: write_invalid();
            0x04: write_then_valid();
            0x05: copy();
            0x06: copy_and_change();
            0x13: hash_all();
            0x08: out_of_range();
            0x09: divide();
            0x0a: shift();
            0x0b: signed_compare();
            0x0c: identity_hash();
            0x0d: xor_hash();
        }
    }

    apply {
        standard.egress_spec = 1;
        todo.apply();
        if (hdr.ask.what == 0x0e) {
            standard.egress_spec = 511;
        }
        if (hdr.ask.what == 0x0f) {
            hdr.ask.answer = (bit<32>) standard.egress_port + 5;
            hdr.second.setValid();
        }
    }
}

control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action note_length() { hdr.ask.answer = standard.packet_length; }
    action stop() { hdr.ask.index = 0x77; exit; }

    apply {
        if (hdr.ask.what[6:6] == 1) {
            stop();
        }
        if (hdr.ask.what & 0x7f < 8) {
            note_length();
        }
        if (hdr.ask.what == 0x10) {
            hdr.ask.answer = (bit<32>) standard.egress_spec;
        }
        if (hdr.ask.what == 0x11) {
            standard.egress_spec = 3;
        }
        if (hdr.ask.what == 0x12) {
            hdr.ask.answer = standard.instance_type;
        }
        if (hdr.second.isValid() && hdr.ask.what == 0x85) {
            hdr.first.setInvalid();
        }
    }
}

control update_sums(inout headers hdr, inout metadata meta) { apply { } }

control deparse(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.second);
        packet.emit(hdr.ask);
        packet.emit(hdr.first);
    }
}

V1Switch(parse(), verify_sums(), ingress(), egress(), update_sums(), deparse()) main;
