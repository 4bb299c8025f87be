// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Turns a packet into the switch's reply: a RESULT for all or for one, a STALE or an INFORM for one, a partial result
// for the switch above, a notice of the switch above for all, or nothing.

#ifndef SUMWIRE_REPLY_P4_
#define SUMWIRE_REPLY_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
#include "../state.p4"

// Ingress: Ethernet, IPv4 and UDP of what the switch sends, but for the receiver's address.
control ReplyHeaders(inout ethernet_h ethernet, inout ipv4_h ipv4, inout udp_h udp, in bit<8> words,
                     in destination_t destination) {
    apply {
        udp.len = UDP_BYTES + SUMWIRE_BYTES + (bit<16>)words * WORD_BYTES;
        udp.checksum = 0;
        udp.src_port = SUMWIRE_PORT;
        ipv4.total_len = IPV4_BYTES + udp.len;
        // The priority of the packet that it answers, and drop class 0: a lost result loses all that went into it.
        ipv4.dscp = ipv4.dscp & DSCP_PRIORITY;
        ipv4.ecn = ECN_ECT;
        ipv4.id = 0;
        ipv4.ttl = RESULT_TTL;
        ipv4.src = destination.address;
        ethernet.src = destination.mac;
    }
}

// Ingress: what the reply is, and to whom it goes. It takes all headers, since one without payload clears most of them.
control Reply(inout headers_t hdr, in bit<32> verdict, in bit<8> effects, inout bit<2> reply,
              in destination_t destination, in admission_t admission, in state_t state,
              inout standard_metadata_t standard_metadata) {
    ReplyHeaders() reply_headers;

    @hidden action to_sender() {
        reply = REPLY_TO_WORKER;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    @hidden action to_group() {
        reply = REPLY_TO_WORKER;
        standard_metadata.mcast_grp = admission.group;
    }

    // To the switch above this one is a worker. The partial result takes its flags along.
    @hidden action send_up() {
        // A FLUSH is passed on if any number is enough for it: how many are in here says nothing of the whole tree.
        // It goes along when a partial result is sent again: by then the switch above has had time for the others.
        if (verdict == VERDICT_ASK && hdr.sumwire.contributors == 0) {
            hdr.sumwire.flags = STATE_FLAGS(state) | (hdr.sumwire.flags & FLAG_FLUSH);
        } else {
            hdr.sumwire.flags = STATE_FLAGS(state);
        }
        hdr.sumwire.kind = KIND_CONTRIBUTE;
        hdr.sumwire.worker = hdr.above.worker;
        hdr.sumwire.count = STATE_COUNT(state);
        hdr.sumwire.contributors = 0;
        hdr.sumwire.cut = STATE_CUT(state);
        hdr.ethernet.dst = hdr.above.mac;
        hdr.ipv4.dst = hdr.above.address;
        hdr.udp.dst_port = SUMWIRE_PORT;
        reply = REPLY_UP;
        standard_metadata.egress_spec = hdr.above.port[8:0];
    }

    @hidden action fill_result() {
        hdr.sumwire.kind = KIND_RESULT;
        hdr.sumwire.count = STATE_COUNT(state);
        hdr.sumwire.contributors = STATE_CONTRIBUTORS(state);
        hdr.sumwire.flags = STATE_FLAGS(state);
        hdr.sumwire.cut = STATE_CUT(state);
    }

    @hidden action fill_inform() {
        hdr.sumwire.kind = KIND_INFORM;
        hdr.sumwire.round = STATE_ROUND(state);
        hdr.sumwire.count = STATE_COUNT(state);
        hdr.sumwire.contributors = STATE_CONTRIBUTORS(state);
        hdr.sumwire.flags = STATE_FLAGS(state);
        if (STATE_PHASE(state) == PHASE_CLOSED) {
            hdr.sumwire.flags = STATE_FLAGS(state) | FLAG_CLOSED;
        }
        hdr.sumwire.cut = STATE_CUT(state);
    }

    // A HELLO is also told what it speaks to.
    @hidden action fill_hello() {
        hdr.sumwire.bucket = admission.digest[31:16];
        hdr.sumwire.chunk = PROGRAM_REVISION ++ admission.digest[15:0];
        hdr.sumwire.token = (token_t)OPENING_OWNER(admission.opening);
    }

    @hidden action fill_stale() {
        hdr.sumwire.kind = KIND_STALE;
        hdr.sumwire.round = STATE_ROUND(state);
        hdr.sumwire.count = 0;
        hdr.sumwire.contributors = 0;
        hdr.sumwire.flags = 0;
        hdr.sumwire.cut = 0;
    }

    @hidden action drop_payload() {
        hdr.sumwire.words = 0;
        hdr.word0.setInvalid();
        hdr.word1.setInvalid();
        hdr.pair2.setInvalid();
        hdr.pair4.setInvalid();
        hdr.pair6.setInvalid();
        hdr.jumbo.setInvalid();
    }

    apply {
        if (effects & EFFECT_GOES_UP != 0) {
            send_up();
        } else if (effects & EFFECT_ANSWERS != 0) {
            fill_result();
            if (verdict == VERDICT_DUPLICATE) {
                to_sender();
            } else {
                to_group();
            }
        } else if (verdict == VERDICT_STALE) {
            fill_stale();
            drop_payload();
            to_sender();
        } else if (verdict == VERDICT_INFORM) {
            fill_inform();
            drop_payload();
            if (hdr.sumwire.op == OP_NONE) {
                fill_hello();
            }
            to_sender();
        } else {
            // A notice of the switch above, as it is.
            to_group();
        }
        reply_headers.apply(hdr.ethernet, hdr.ipv4, hdr.udp, hdr.sumwire.words, destination);
    }
}

// Egress: the address of the worker this replica goes to. Other replies have theirs.
control ReplyAddress(inout ethernet_h ethernet, inout ipv4_h ipv4, inout udp_h udp, inout sumwire_h sumwire,
                     in bit<2> reply, inout standard_metadata_t standard_metadata) {
    @id(ID_ACTION_ADDRESS)
    @brief("Address a reply") @description("MAC address, IPv4 address and UDP port of the worker.")
    action address(@id(1) mac_t mac, @id(2) ipv4_t ip, @id(3) bit<16> udp_port) {
        ethernet.dst = mac;
        ipv4.dst = ip;
        udp.dst_port = udp_port;
    }

    @id(ID_ACTION_NO_ADDRESS)
    @brief("Drop a reply") @description("The worker has no row.")
    action no_address() {
        mark_to_drop(standard_metadata);
    }

    @id(ID_TABLE_REPLICA)
    @brief("Workers' addresses") @description("By job and worker: where a reply goes.")
    table replica {
        key = {
            sumwire.job : exact @id(1) @name("job");
            sumwire.worker : exact @id(2) @name("worker");
        }
        actions = {
            address;
            @defaultonly no_address;
        }
        const default_action = no_address();
        size = WORKERS_MAX;
    }

    apply {
        if (reply == REPLY_TO_WORKER) {
            // A replica's instance is its worker + 1; a reply to the sender alone has none.
            if (standard_metadata.egress_rid != 0) {
                sumwire.worker = (worker_t)(standard_metadata.egress_rid - 1);
            }
            replica.apply();
        } else if (reply == REPLY_REFUSED) {
            // What it answers may have a payload, parsed or not.
            truncate(BARE_BYTES);
        }
    }
}

#endif
