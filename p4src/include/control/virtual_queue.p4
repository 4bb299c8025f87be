// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Egress: virtual queues, how long a port's queues would be if the port sent at the rate of its row. Above the
// thresholds packets are marked, dropped by their drop class, or cut to their top planes, as switches do with RED and
// ECN (RFC 3168): protected packets are ECN-capable and are marked, the others are dropped, each class above its own
// length. bmv2 and the soft switch have no queue of a link's rate that a program could look at.
// A port has two of them: one for packets with a priority, which the link serves first, and one for all others. So
// other traffic, however much, does not push tagged packets out.

#ifndef SUMWIRE_VIRTUAL_QUEUE_P4_
#define SUMWIRE_VIRTUAL_QUEUE_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"

const bit<16> TRIMMED_BYTES = 2 * WORD_BYTES;

control VirtualQueue(inout ipv4_h ipv4, inout udp_h udp, inout sumwire_h sumwire, inout pair_h pair2, in auth_h auth,
                     in bit<2> reply, inout scratch_t scratch, inout standard_metadata_t standard_metadata) {
    register<bit<48>>(QUEUES_MAX) last_seen;  // us
    register<bit<64>>(QUEUES_MAX) backlog;    // bytes << QUEUE_SHIFT

    @id(ID_COUNTER_QUEUE_DECISIONS)
    counter(QUEUE_CELLS, CounterType.packets_and_bytes) queue_decisions;

    bit<32> drop;  // the length above which this packet is lost or marked; and then the counter's cell
    bit<2> decision;

    @id(ID_ACTION_LIMIT)
    @brief("Queue")
    @description("rate: bytes in 1024 us. mark, drop3 to drop0, drop_all: lengths in bytes. trims: packets may be cut.")
    action limit(@id(1) bit<32> rate, @id(2) bit<32> mark, @id(3) bit<32> drop3, @id(4) bit<32> drop2,
                 @id(5) bit<32> drop1, @id(6) bit<32> drop0, @id(7) bit<32> drop_all, @id(8) bit<1> trims) {
        scratch.value = (bit<32>)(standard_metadata.egress_port ++ (bit<1>)(ipv4.dscp & DSCP_PRIORITY != 0));
        last_seen.read(scratch.passed, scratch.value);
        last_seen.write(scratch.value, standard_metadata.ingress_global_timestamp);
        backlog.read(scratch.number, scratch.value);

        scratch.passed = standard_metadata.ingress_global_timestamp - scratch.passed;
        if (scratch.passed > QUEUE_LOOKBACK_US) {
            scratch.passed = QUEUE_LOOKBACK_US;
        }
        bit<64> drained = (bit<64>)scratch.passed * (bit<64>)rate;
        if (scratch.number > drained) {
            scratch.number = scratch.number - drained;
        } else {
            scratch.number = 0;
        }

        bit<2> class = ipv4.dscp[2:1];
        if (ipv4.ecn != ECN_NOT_ECT) {
            drop = mark;
            decision = QUEUE_MARK;
        } else {
            decision = QUEUE_DROP;
            // A malformed packet has no words. One with an authentication tag would be refused if it were cut.
            if (trims == 1 && pair2.isValid() && !auth.isValid() &&
                sumwire.kind == KIND_CONTRIBUTE && sumwire.op == OP_THC && sumwire.words == THC_WORDS_UP) {
                decision = QUEUE_TRIM;
            }
            if (class == 0) {
                drop = drop0;
            } else if (class == 1) {
                drop = drop1;
            } else if (class == 2) {
                drop = drop2;
            } else {
                drop = drop3;
            }
        }
        if ((scratch.number >> QUEUE_SHIFT) > (bit<64>)drop_all) {
            decision = QUEUE_DROP;
        } else if ((scratch.number >> QUEUE_SHIFT) <= (bit<64>)drop) {
            decision = QUEUE_PASS;
        }
        drop = (bit<32>)(scratch.value[9:0] ++ class ++ decision);
    }

    @id(ID_ACTION_NO_LIMIT)
    @brief("Do not queue") @description("The port has no virtual queue.")
    action no_limit() {
        drop = 0;
        decision = QUEUE_PASS;
    }

    @id(ID_TABLE_VIRTUAL_QUEUE)
    @brief("Virtual queues") @description("By port: its rate, and from which lengths packets are marked, cut or lost.")
    table virtual_queue {
        key = {
            standard_metadata.egress_port : exact @id(1) @name("port");
        }
        actions = {
            limit;
            @defaultonly no_limit;
        }
        const default_action = no_limit();
        size = PORTS_MAX;
    }

    // Updates IPv4's checksum for a field that grew by `more` (RFC 1624), in ones' complement: a wrong checksum stays
    // wrong, and options need not be known.
    @hidden action grow(in bit<16> more) {
        bit<32> sum = (bit<32>)(~ipv4.checksum) + (bit<32>)more;
        sum = (sum & 0xFFFF) + (sum >> 16);
        ipv4.checksum = ~sum[15:0];
    }

    @hidden action mark_packet() {
        grow((bit<16>)(ECN_CE - ipv4.ecn));
        ipv4.ecn = ECN_CE;
    }

    @hidden action trim_packet() {
        pair2.setInvalid();
        sumwire.words = THC_WORDS_TRIMMED;
        sumwire.flags = sumwire.flags | FLAG_TRIMMED;
        udp.len = udp.len - TRIMMED_BYTES;
        udp.checksum = 0;
        ipv4.total_len = ipv4.total_len - TRIMMED_BYTES;
        grow(~TRIMMED_BYTES);
        scratch.number = scratch.number - ((bit<64>)TRIMMED_BYTES << QUEUE_SHIFT);
    }

    @hidden action count_decision() {
        queue_decisions.count(drop);
    }

    // A reply's length is new, a forwarded frame may have padding.
    @hidden action charge() {
        if (reply != REPLY_NONE) {
            scratch.number = scratch.number + ((bit<64>)(ipv4.total_len + ETHERNET_BYTES) << QUEUE_SHIFT);
        } else {
            scratch.number = scratch.number + ((bit<64>)standard_metadata.packet_length << QUEUE_SHIFT);
        }
    }

    @hidden action keep() {
        backlog.write(scratch.value, scratch.number);
    }

    @hidden action drop_packet() {
        mark_to_drop(standard_metadata);
    }

    apply {
        // Results of jobs without tags pass queues by.
        if (ipv4.isValid() &&
            (standard_metadata.egress_rid == 0 || ipv4.dscp & DSCP_PRIORITY != 0)) {
            if (virtual_queue.apply().hit) {
                count_decision();
                if (decision == QUEUE_MARK) {
                    mark_packet();
                } else if (decision == QUEUE_TRIM) {
                    trim_packet();
                }
                if (decision == QUEUE_DROP) {
                    keep();
                    drop_packet();
                } else {
                    charge();
                    keep();
                }
            }
        }
    }
}

#endif
