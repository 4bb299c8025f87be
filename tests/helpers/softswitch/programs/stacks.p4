// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Header stacks, a parser with a loop, a varbit field, a header union and a stack of unions.
#include <core.p4>
#include <v1model.p4>

header command_t {
    bit<8> what;
    bit<8> index;
}

header label_t {
    bit<15> value;
    bit<1> last;
}

header options_t {
    bit<8> size;
    varbit<64> bytes;
    bit<8> tail;
}

header short_t {
    bit<8> kind;
    bit<8> a;
}

header long_t {
    bit<8> kind;
    bit<24> b;
}

header_union either_t {
    short_t short_;
    long_t long_;
}

struct headers_t {
    command_t command;
    label_t[3] labels;
    options_t options;
    options_t copied;
    either_t one;
    either_t[2] many;
}

struct metadata_t {
    bit<8> left;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.command);
        transition parse_label;
    }
    state parse_label {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.last) {
            0: parse_label;
            1: parse_options;
        }
    }
    state parse_options {
        packet.extract(hdr.options, ((bit<32>)packet.lookahead<bit<8>>()) << 3);
        transition parse_one;
    }
    state parse_one {
        transition select(packet.lookahead<bit<8>>()) {
            1: one_short;
            2: one_long;
            default: accept;
        }
    }
    state one_short {
        packet.extract(hdr.one.short_);
        transition parse_many;
    }
    state one_long {
        packet.extract(hdr.one.long_);
        transition parse_many;
    }
    state parse_many {
        transition select(packet.lookahead<bit<8>>()) {
            3: many_short;
            4: many_long;
            default: accept;
        }
    }
    state many_short {
        packet.extract(hdr.many.next.short_);
        transition parse_many;
    }
    state many_long {
        packet.extract(hdr.many.next.long_);
        transition parse_many;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        // The port says how the parser ended.
        if (standard.parser_error == error.PacketTooShort) {
            standard.egress_spec = 1;
        } else if (standard.parser_error == error.StackOutOfBounds) {
            standard.egress_spec = 2;
        } else if (standard.parser_error == error.HeaderTooShort) {
            standard.egress_spec = 3;
        } else if (standard.parser_error != error.NoError) {
            standard.egress_spec = 4;
        }
        if (hdr.command.what == 1) {
            hdr.labels.push_front(1);
            hdr.labels[0].setValid();
            hdr.labels[0] = { 0x7abc, 0 };
        } else if (hdr.command.what == 2) {
            hdr.labels.pop_front(1);
        } else if (hdr.command.what == 3) {
            hdr.labels[hdr.command.index].value = 0x1234;
        } else if (hdr.command.what == 4) {
            hdr.command.index = (bit<8>)hdr.labels[hdr.command.index].value;
        } else if (hdr.command.what == 5) {
            hdr.copied = hdr.options;
            hdr.options.setInvalid();
        } else if (hdr.command.what == 6) {
            hdr.one.long_.setValid();
            hdr.one.long_.kind = 2;
            hdr.one.long_.b = 0xabcdef;
        } else if (hdr.command.what == 7) {
            hdr.many.pop_front(1);
        } else if (hdr.command.what == 8) {
            hdr.command.index = hdr.one.isValid() ? 8w1 : 0;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.command);
        packet.emit(hdr.labels);
        packet.emit(hdr.options);
        packet.emit(hdr.copied);
        packet.emit(hdr.one);
        packet.emit(hdr.many);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
