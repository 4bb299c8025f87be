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

control Refusal(inout ethernet_h ethernet, inout ipv4_h ipv4, inout udp_h udp, inout sumwire_h sumwire,
                in bit<32> reject, inout bit<2> reply, in destination_t destination, inout scratch_t scratch,
                inout standard_metadata_t standard_metadata) {
    ReplyHeaders() reply_headers;

    register<bit<48>>(PORTS_MAX) last_refusal;  // us

    // The time since the last refusal at this port.
    @hidden action see_port() {
        scratch.value = (bit<32>)standard_metadata.ingress_port;
        last_refusal.read(scratch.passed, scratch.value);
        scratch.passed = standard_metadata.ingress_global_timestamp - scratch.passed;
    }

    @hidden action refuse() {
        last_refusal.write(scratch.value, standard_metadata.ingress_global_timestamp);
        sumwire.version = SUMWIRE_VERSION;
        sumwire.kind = KIND_REFUSED;
        sumwire.count = reject[7:0];
        sumwire.contributors = 0;
        sumwire.flags = 0;
        sumwire.words = 0;
        sumwire.cut = 0;
        // Back to where it came from: the reason may be that the worker's number or address is wrong.
        udp.dst_port = udp.src_port;
        ipv4.dst = ipv4.src;
        ethernet.dst = ethernet.src;
        reply = REPLY_REFUSED;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    apply {
        if (reject != REJECT_BUDGET && sumwire.isValid() && standard_metadata.checksum_error == 0 &&
            (sumwire.kind == KIND_CONTRIBUTE || sumwire.kind == KIND_PROBE)) {
            see_port();
            if (scratch.passed >= REFUSAL_GAP_US) {
                refuse();
                reply_headers.apply(ethernet, ipv4, udp, sumwire.words, destination);
            }
        }
    }
}

#endif
