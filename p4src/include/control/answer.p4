// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What goes out for a packet: nothing or a refusal where a step has something against it, else the reply that the
// verdict asks for.

#ifndef SUMWIRE_ANSWER_P4_
#define SUMWIRE_ANSWER_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "authenticate.p4"
#include "guard.p4"
#include "reply.p4"

// It hands on most headers and metadata, and so takes all.
control Answer(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name(".ingress.guard")
    Guard() guard;
    @name(".ingress.reply")
    Reply() reply;
    Authenticate() authenticate;

    apply {
        if (meta.reject != REJECT_NONE) {
            guard.apply(hdr.ethernet, hdr.arp, hdr.ipv4, hdr.udp, hdr.sumwire, meta.reject, meta.verdict, meta.reply,
                        meta.destination, meta.scratch, standard_metadata);
        } else if (meta.effects & EFFECTS_REPLY != 0) {
            reply.apply(hdr, meta.verdict, meta.effects, meta.reply, meta.destination, meta.admission, meta.state,
                        standard_metadata);
            if (hdr.auth.isValid()) {
                authenticate.apply(hdr, meta.reject, meta.reply, meta.traits, meta.destination.address);
            }
        }
    }
}

#endif
