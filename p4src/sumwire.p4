// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Sumwire's switch program for v1model: a table of contents. Each line of an apply is one file in include/control, and
// so are the steps that it is made of.

#include <core.p4>
#include <v1model.p4>

#include "include/sizes.p4"
#include "include/types.p4"
#include "include/headers.p4"
#include "include/metadata.p4"
#include "include/parser.p4"
#include "include/checksum.p4"
#include "include/control/forwarding.p4"
#include "include/control/aggregation.p4"
#include "include/control/answer.p4"
#include "include/control/accounting.p4"
#include "include/control/virtual_queue.p4"

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    Aggregation() aggregation;
    Answer() answer;
    Accounting() accounting;

    apply {
        forwarding.apply(hdr, meta, standard_metadata);   // to another host, or to the aggregator?
        aggregation.apply(hdr, meta, standard_metadata);  // the aggregator's: checks, and the slot's verdict
        answer.apply(hdr, meta, standard_metadata);       // a refusal, or the reply that the verdict asks for
        accounting.apply(meta.verdict);                   // counts it by its verdict
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ReplyAddress() reply_address;
    VirtualQueue() virtual_queue;

    apply {
        reply_address.apply(hdr.ethernet, hdr.ipv4, hdr.udp, hdr.sumwire, standard_metadata, meta.reply);  // to whom
        virtual_queue.apply(hdr, meta, standard_metadata);  // whether the port has room
    }
}

control SumwireDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.sumwire);
        packet.emit(hdr.word0);
        packet.emit(hdr.word1);
        packet.emit(hdr.pair2);
        packet.emit(hdr.pair4);
        packet.emit(hdr.pair6);
        packet.emit(hdr.jumbo_up);
        packet.emit(hdr.jumbo);
        packet.emit(hdr.auth);
    }
}

@pkginfo(name="sumwire", version="0.2.0")
V1Switch(SumwireParser(), VerifyIpv4Checksum(), ingress(), egress(), ComputeIpv4Checksum(),
         SumwireDeparser()) main;
