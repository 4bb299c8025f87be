// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A sender that the switch knows is told why its contribution or probe was refused: a REFUSED, whose `count` is the
// reason. Never an answer to any other kind, so two switches cannot answer each other for ever; never longer than what
// it answers; and only now and then, so whoever sends nonsense gets little back.
// A packet beyond its job's limit is lost as in a full queue, and nobody is told.

#ifndef SUMWIRE_REFUSAL_P4_
#define SUMWIRE_REFUSAL_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
#include "reply.p4"

control Refusal(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ReplyHeaders() reply_headers;

    register<bit<48>>(PORTS_MAX) last_refusal;  // us

    // The time since the last refusal at this port.
    @hidden action see_port() {
        meta.scratch = (bit<32>)standard_metadata.ingress_port;
        last_refusal.read(meta.passed, meta.scratch);
        meta.passed = standard_metadata.ingress_global_timestamp - meta.passed;
    }

    @hidden action refuse() {
        last_refusal.write(meta.scratch, standard_metadata.ingress_global_timestamp);
        hdr.sumwire.version = SUMWIRE_VERSION;
        hdr.sumwire.kind = KIND_REFUSED;
        hdr.sumwire.count = meta.reject[7:0];
        hdr.sumwire.contributors = 0;
        hdr.sumwire.flags = 0;
        hdr.sumwire.words = 0;
        hdr.sumwire.cut = 0;
        // Back to where it came from: the reason may be that the worker's number or address is wrong.
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ethernet.dst = hdr.ethernet.src;
        meta.reply = REPLY_REFUSED;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    apply {
        if (meta.reject != REJECT_BUDGET && hdr.sumwire.isValid() && standard_metadata.checksum_error == 0 &&
            (hdr.sumwire.kind == KIND_CONTRIBUTE || hdr.sumwire.kind == KIND_PROBE)) {
            see_port();
            if (meta.passed >= REFUSAL_GAP_US) {
                refuse();
                reply_headers.apply(hdr.ethernet, hdr.ipv4, hdr.udp, hdr.sumwire.words, meta.lookup_address,
                                    meta.switch_mac);
            }
        }
    }
}

#endif
