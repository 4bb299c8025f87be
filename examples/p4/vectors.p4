// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Every host sends a vector of 32 numbers. The switch adds them, and answers every host with the sum. A host whose answer
// is lost sends its vector again. The slot protocol and the sum are Sumwire's: p4src/aggregation.p4.

#include <core.p4>
#include <v1model.p4>

const int SLOTS_TOTAL = 256;
const int WORD_BITS = 512;
const int ELEMENT_BITS = 16;
#include "aggregation.p4"

const bit<8> KIND_VECTOR = 1;
const bit<8> KIND_TOTAL = 2;
const bit<8> KIND_LATE = 3;  // the slot is in a later round: `round`

header message_h {
    bit<8> kind;
    bit<8> slot;
    bit<32> round;
    bit<8> hosts;  // in an answer: how many vectors are in the sum
    word_t numbers;
}

struct metadata_t {
    bitmap_t sender;  // the sender's bit
    bit<8> hosts;     // how many there are
    bit<16> group;
    bit<32> owner;    // of the slots, never 0: another one when the hosts start again
    verdict_t slot;
    word_t held;      // what the slot holds
}

#include "around.p4"

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<word_t>(SLOTS_TOTAL) totals;
    PlainSlot() slot;

    action host(bitmap_t bit_of_host, bit<8> hosts, bit<16> group, bit<32> owner) {
        meta.sender = bit_of_host;
        meta.hosts = hosts;
        meta.group = group;
        meta.owner = owner;
    }

    action drop() {
        mark_to_drop(standard);
    }

    table hosts {
        key = {
            standard.ingress_port : exact;
        }
        actions = {
            host;
            drop;
        }
        default_action = drop();
    }

    action take() {
        totals.write((slot_t)hdr.message.slot, hdr.message.numbers);
    }

    action add() {
        totals.read(meta.held, (slot_t)hdr.message.slot);
        hdr.message.numbers = SUM_OF_ELEMENTS(hdr.message.numbers, meta.held);
        totals.write((slot_t)hdr.message.slot, hdr.message.numbers);
    }

    action give() {
        totals.read(hdr.message.numbers, (slot_t)hdr.message.slot);
    }

    // The rest of the answer.
    action tell_total() {
        hdr.message.kind = KIND_TOTAL;
        hdr.message.hosts = STATE_COUNT(meta.slot.state);
    }

    action tell_late() {
        hdr.message.kind = KIND_LATE;
        hdr.message.round = STATE_ROUND(meta.slot.state);
    }

    apply {
        if (!hdr.message.isValid() || hdr.message.kind != KIND_VECTOR) {
            drop();
        } else if (hosts.apply().hit) {
            slot.apply(meta.slot, standard, (slot_t)hdr.message.slot, meta.owner, hdr.message.round, meta.sender,
                       meta.hosts, meta.group);
            if (meta.slot.effects & EFFECT_FOLDS == 0) {
                if (meta.slot.effects & EFFECT_ANSWERS != 0) {
                    give();  // once more
                }
            } else if (meta.slot.traits & TRAIT_FRESH != 0) {
                take();  // the round's first
            } else {
                add();
            }
            if (meta.slot.effects & EFFECT_ANSWERS != 0) {
                tell_total();
            } else if (meta.slot.verdict == VERDICT_STALE) {
                tell_late();
            }
        }
    }
}

V1Switch(MyParser(), NoChecksum(), MyIngress(), MyEgress(), NoChecksum(), MyDeparser()) main;
