// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What the programs of this folder share: Ethernet, and behind it one message. A program defines `message_h` and
// `metadata_t`, includes this file, and then says in `MyIngress` what happens to a message.

const bit<16> TYPE_MESSAGE = 0x88B5;  // IEEE 802's Ethernet type for experiments

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    ethernet_h ethernet;
    message_h message;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_MESSAGE: parse_message;
            default: accept;
        }
    }

    state parse_message {
        packet.extract(hdr.message);
        transition accept;
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.message);
    }
}

// No checksum is checked, and none is made.
control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
    }
}
