// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Sumwire's switch program for v1model: a table of contents. Each step of an apply is one file in include/control, and
// so are the steps that it is made of. A step is given the headers that it needs, in wire order, and then the metadata.

#include <core.p4>
#include <v1model.p4>

// The vocabulary.
#include "include/sizes.p4"
#include "include/types.p4"
#include "include/headers.p4"
#include "include/metadata.p4"

// What comes in, and what goes out.
#include "include/parser.p4"
#include "include/checksum.p4"
#include "include/deparser.p4"

// What happens in between.
#include "include/control/forwarding.p4"
#include "include/control/aggregation.p4"
#include "include/control/answer.p4"
#include "include/control/accounting.p4"
#include "include/control/reply.p4"
#include "include/control/virtual_queue.p4"

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    Aggregation() aggregation;
    Answer() answer;
    Accounting() accounting;

    apply {
        // Is it for the aggregator? Else it goes to the port of its address.
        forwarding.apply(hdr.arp, hdr.ipv4, meta.reject, meta.destination, standard_metadata);
        // The aggregator's packets are admitted by job and worker, by the switch above and by their tag. Then the slot
        // comes to a verdict, and takes or gives the payload.
        aggregation.apply(hdr, meta, standard_metadata);
        // The packet becomes the reply that the verdict asks for, or a refusal.
        answer.apply(hdr, meta, standard_metadata);
        // It is counted by its verdict.
        accounting.apply(meta.verdict);
    }
}

// For every copy of a reply, and for what is forwarded.
control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ReplyAddress() reply_address;
    VirtualQueue() virtual_queue;

    apply {
        // A reply gets the address of its receiver.
        reply_address.apply(hdr.ethernet, hdr.ipv4, hdr.udp, hdr.sumwire, meta.reply, standard_metadata);
        // Where the port's queue is long, the packet is marked, cut or dropped.
        virtual_queue.apply(hdr.ipv4, hdr.udp, hdr.sumwire, hdr.pair2, hdr.auth, meta.reply, meta.scratch,
                            standard_metadata);
    }
}

@pkginfo(name="sumwire", version="0.2.0")
V1Switch(SumwireParser(), VerifyIpv4Checksum(), ingress(), egress(), ComputeIpv4Checksum(), SumwireDeparser()) main;
