// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Ingress: turns the packet into the switch's reply, a RESULT for all or for one, a STALE for one, or nothing.

#ifndef SUMWIRE_TNA_REPLY_P4_
#define SUMWIRE_TNA_REPLY_P4_

#include "../headers.p4"
#include "../metadata.p4"

control TnaReply(inout tna_headers_t hdr,
                 inout tna_metadata_t meta,
                 in ingress_intrinsic_metadata_t ig_intr_md,
                 inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                 inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    // Back to the sender, which egress replaces by the receiver where there are several.
    action turn_round() {
        mac_t sender = hdr.ethernet.src;
        ipv4_t address = hdr.ipv4.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = sender;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = address;
        hdr.ipv4.id = 0;
        hdr.ipv4.ttl = RESULT_TTL;
        hdr.ipv4.ecn = ECN_ECT;
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.udp.src_port = SUMWIRE_PORT;
        hdr.udp.checksum = 0;
        hdr.sumwire.flags = 0;
        hdr.sumwire.cut = 0;
        hdr.planes.setInvalid();
    }

    action result() {
        turn_round();
        hdr.sumwire.kind = KIND_RESULT;
        hdr.sumwire.count = meta.workers;
        hdr.sumwire.contributors = meta.everyone;
        hdr.sumwire.words = 8;
        hdr.udp.len = TNA_UDP_BYTES_LANES;
        hdr.ipv4.total_len = IPV4_BYTES + TNA_UDP_BYTES_LANES;
    }

    action to_all() {
        result();
        ig_tm_md.mcast_grp_a = meta.group;
    }

    action to_sender() {
        result();
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }

    action stale() {
        turn_round();
        hdr.sumwire.kind = KIND_STALE;
        hdr.sumwire.round = meta.newer_round;
        hdr.sumwire.count = 0;
        hdr.sumwire.contributors = 0;
        hdr.sumwire.words = 0;
        hdr.udp.len = TNA_UDP_BYTES_BARE;
        hdr.ipv4.total_len = IPV4_BYTES + TNA_UDP_BYTES_BARE;
        hdr.lanes.setInvalid();
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }

    action nothing() {
        ig_dprsr_md.drop_ctl = 1;
    }

    table reply {
        key = {
            meta.verdict : exact;
        }
        actions = {
            to_all;
            to_sender;
            stale;
            @defaultonly nothing;
        }
        const entries = {
            VERDICT_LAST[3:0] : to_all();
            VERDICT_DUPLICATE[3:0] : to_sender();
            VERDICT_STALE[3:0] : stale();
        }
        const default_action = nothing();
        size = 4;
    }

    apply {
        reply.apply();
    }
}

// Egress: the address of the worker this replica goes to. A reply to the sender alone has no replica's number.
control TnaReplyAddress(inout tna_egress_headers_t hdr, in egress_intrinsic_metadata_t eg_intr_md) {
    action address(worker_t worker, mac_t mac, ipv4_t ip, bit<16> udp_port) {
        hdr.sumwire.worker = worker;
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.udp.dst_port = udp_port;
    }

    table replica {
        key = {
            hdr.sumwire.job : exact @name("job");
            eg_intr_md.egress_rid : exact @name("replica");
        }
        actions = {
            address;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = TNA_WORKERS_MAX;
    }

    apply {
        replica.apply();
    }
}

#endif
