// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Sumwire's switch program for v1model: a table of contents. Each line of apply is one file in include/control.

#include <core.p4>
#include <v1model.p4>

#include "include/sizes.p4"
#include "include/types.p4"
#include "include/headers.p4"
#include "include/metadata.p4"
#include "include/parser.p4"
#include "include/checksum.p4"
#include "include/control/forwarding.p4"
#include "include/control/admission.p4"
#include "include/control/uplink.p4"
#include "include/control/degrade.p4"
#include "include/control/authenticate.p4"
#include "include/control/slot.p4"
#include "include/control/reply.p4"
#include "include/control/guard.p4"
#include "include/control/accounting.p4"
#include "include/control/virtual_queue.p4"

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    Admission() admission;
    Uplink() uplink;
    Authenticate() authenticate;
    Degrade() degrade;
    Slot() slot;
    Reply() reply;
    Guard() guard;
    Accounting() accounting;

    apply {
        forwarding.apply(hdr, meta, standard_metadata);
        if (meta.switch_mac != 0 && hdr.ipv4.isValid()) {
            if (meta.reject == REJECT_NONE && hdr.sumwire.isValid() && standard_metadata.checksum_error == 0) {
                admission.apply(hdr, meta, standard_metadata);
                if (meta.reject == REJECT_NONE) {
                    uplink.apply(hdr, meta, standard_metadata);
                }
                if (meta.reject == REJECT_NONE && (hdr.auth.isValid() || hdr.key.isValid())) {
                    authenticate.apply(hdr, meta);
                }
                if (meta.reject == REJECT_NONE) {
                    degrade.apply(hdr, meta);
                    slot.apply(hdr, meta);
                }
            } else if (meta.reject == REJECT_NONE) {
                if (hdr.sumwire.isValid()) {
                    meta.reject = REJECT_CHECKSUM;
                } else {
                    meta.reject = REJECT_NOT_SUMWIRE;
                }
            }
        }
        if (meta.reject != REJECT_NONE) {
            guard.apply(hdr, meta, standard_metadata);
        } else if (meta.effects & EFFECTS_REPLY != 0) {
            reply.apply(hdr, meta, standard_metadata);
            if (hdr.auth.isValid()) {
                authenticate.apply(hdr, meta);
            }
        }
        if (meta.verdict != VERDICT_NONE) {
            accounting.apply(meta);
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ReplyAddress() reply_address;
    VirtualQueue() virtual_queue;

    apply {
        reply_address.apply(hdr, meta, standard_metadata);
        // Results of jobs without tags pass queues by.
        if (hdr.ipv4.isValid() &&
            (standard_metadata.egress_rid == 0 || hdr.ipv4.dscp & DSCP_PRIORITY != 0)) {
            virtual_queue.apply(hdr, meta, standard_metadata);
        }
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
        packet.emit(hdr.auth);
    }
}

@pkginfo(name="sumwire", version="0.2.0")
V1Switch(SumwireParser(), VerifyIpv4Checksum(), ingress(), egress(), ComputeIpv4Checksum(),
         SumwireDeparser()) main;
