// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Parser: select on fields, masks, lookahead, two keys, verify with an own error, advance, validity in the deparser.
#include <core.p4>
#include <v1model.p4>

error { BadVersion }

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header tag_t { bit<3> prio; bit<1> drop; bit<12> id; bit<16> kind; }
header item_t { bit<4> version; bit<4> flags; bit<8> length; bit<16> body; }
header note_t { bit<8> a; int<8> b; bit<24> c; }

struct metadata { bit<8> peeked; bit<1> tagged; }
struct headers { ethernet_t ethernet; tag_t tag; item_t item; note_t note; }

parser parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind, standard.ingress_port) {
            (0x7100, _): parse_tag;
            (0x9000 &&& 0xff00, 3): skip_four;
            (0x9000 &&& 0xff00, _): parse_item;
            default: accept;
        }
    }
    state parse_tag {
        packet.extract(hdr.tag);
        meta.tagged = 1;
        transition select(hdr.tag.kind) {
            0x9000 &&& 0xff00: parse_item;
            default: accept;
        }
    }
    state skip_four {
        packet.advance(32);
        transition parse_item;
    }
    state parse_item {
        meta.peeked = packet.lookahead<bit<8>>();
        packet.extract(hdr.item);
        verify(hdr.item.version == 4, error.BadVersion);
        transition select(packet.lookahead<bit<16>>()) {
            0xbeef: parse_note;
            0xf000 .. 0xf003: parse_note;
        }
    }
    state parse_note {
        packet.extract(hdr.note);
        transition accept;
    }
}

control verify_sums(inout headers hdr, inout metadata meta) { apply { } }

control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (standard.parser_error == error.PacketTooShort) {
            standard.egress_spec = 2;
        } else if (standard.parser_error == error.BadVersion) {
            standard.egress_spec = 3;
        } else if (standard.parser_error == error.NoMatch) {
            standard.egress_spec = 4;
        }
        if (hdr.note.isValid()) {
            hdr.note.a = meta.peeked;
            hdr.note.b = -hdr.note.b;
            hdr.note.c = (bit<24>) standard.packet_length;
        }
        if (meta.tagged == 1) {
            hdr.tag.setInvalid();
            hdr.ethernet.kind = hdr.tag.kind;
        }
    }
}

control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }

control update_sums(inout headers hdr, inout metadata meta) { apply { } }

control deparse(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.tag);
        packet.emit(hdr.item);
        packet.emit(hdr.note);
    }
}

V1Switch(parse(), verify_sums(), ingress(), egress(), update_sums(), deparse()) main;
