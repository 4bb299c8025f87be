// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Aggregation for a program with its own headers (docs/p4-library.md): the slot protocol and the arithmetic of
// sumwire.p4, which is made of the same files. Three constants must be defined before it is included:
//
//     const int SLOTS_TOTAL = 256;  // slots
//     const int WORD_BITS = 512;    // bits of a word_t, at most 2048
//     const int ELEMENT_BITS = 16;  // bits of an element of a word, which has an even number of them

#ifndef SUMWIRE_LIBRARY_P4_
#define SUMWIRE_LIBRARY_P4_

#include "include/state.p4"
#include "include/control/carry.p4"
#include "include/control/elements.p4"
#include "include/control/join.p4"
#include "include/control/opening.p4"
#include "include/control/verdict.p4"

// What a slot makes of a packet. A program keeps it in its metadata.
struct verdict_t {
    bit<32> verdict;  // VERDICT_*
    bit<8> effects;   // EFFECT_FOLDS, EFFECT_ANSWERS, EFFECT_TELLS
    bit<16> traits;   // TRAIT_FRESH
    state_t state;    // of the slot: STATE_ROUND, STATE_COUNT, STATE_CONTRIBUTORS
    // What the controls compute in.
    state_t joined;
    bit<32> ahead;
    bit<32> reject;
}

// A slot without runs, flags and switches above: owner and round alone decide. It comes to the verdict, and the packet,
// which the program turns into the answer, goes to all or to its sender alone, or is dropped. A program has one
// PlainSlot: the ids of its table and actions are fixed.
control PlainSlot(inout verdict_t says, inout standard_metadata_t standard_metadata, in slot_t slot, in bit<32> owner,
                  in bit<32> round, in bitmap_t worker_bit, in bit<8> quorum, in bit<16> group) {
    register<state_t>(SLOTS_TOTAL) states;
    register<state_t>(1) runs;  // there are none

    Opening(runs) opening;
    Join(states) join;
    Verdict(states, runs) verdict;

    opening_t opens;

    @hidden action read_state() {
        states.read(says.state, slot);
        opens = ((opening_t)owner << OPENING_OWNER_AT) | ((opening_t)round << OPENING_ROUND_AT);
    }

    apply {
        read_state();
        opening.apply(says.state, says.joined, says.ahead, says.traits, says.reject, opens, 0, round, TOKEN_NONE, 0, 0,
                      false, 0, false);
        if (IS_USUAL(says.state, says.traits, worker_bit, 0, false)) {
            join.apply(says.state, says.traits, says.effects, says.verdict, slot, worker_bit, quorum, 1, false);
        } else {
            verdict.apply(says.state, says.joined, says.traits, says.effects, says.verdict, slot, 0, worker_bit, quorum,
                          0, 0, 1, 0, false, false, false, 0);
        }
        if (says.verdict == VERDICT_LAST) {
            standard_metadata.mcast_grp = group;
        } else if (says.effects & EFFECTS_REPLY != 0) {
            standard_metadata.egress_spec = standard_metadata.ingress_port;
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

#endif
