// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The fast path: a whole contribution without flags to an open slot, as nearly every packet is. What the verdict would
// make of it, without the table.

#ifndef SUMWIRE_JOIN_P4_
#define SUMWIRE_JOIN_P4_

#include "../state.p4"
#include "loss.p4"

// What a usual contribution is not, and what its slot's state does not have: a phase, a run to open, void workers.
const bit<16> TRAITS_UNUSUAL =
    TRAIT_OLDER | TRAIT_FROM_ABOVE | TRAIT_BARE | TRAIT_TRIMMED | TRAIT_VOID | TRAIT_REFUSED;
const state_t STATE_UNUSUAL = (0x3 << STATE_PHASE_AT) | (0x1 << STATE_OPENS_AT) | (0xFFFFFFFF << STATE_VOIDED_AT);
// `marked`: the packet met a long queue.
#define IS_USUAL(state, traits, worker_bit, flags, marked) \
    (traits & TRAITS_UNUSUAL == 0 && flags == 0 && !(marked) && \
     state & (STATE_UNUSUAL | ((state_t)worker_bit << STATE_CONTRIBUTORS_AT)) == 0)

// `states`: see control Slot. `count`: hosts in the contribution. `above`: there is a switch above.
control Join(inout state_t state, inout bit<16> traits, inout bit<8> effects, inout bit<32> verdict,
             in slot_t slot, in bitmap_t worker_bit, in bit<8> quorum, in bit<8> count, in bool above)(
             register<state_t> states) {
    MarkLoss(states) mark_loss;

    // The sum is complete here: a root answers, a lower switch passes it on and waits.
    @hidden action close() {
        if (above) {
            effects = effects | (EFFECT_CLOSES | EFFECT_GOES_UP);
            state = state | ((state_t)PHASE_WAITING << STATE_PHASE_AT);
        } else {
            effects = effects | (EFFECT_CLOSES | EFFECT_ANSWERS);
            state = state | ((state_t)PHASE_CLOSED << STATE_PHASE_AT);
        }
        states.write(slot, state);
    }

    // A usual contribution joins: there is nothing to look at closely.
    @hidden action join() {
        effects = EFFECT_FOLDS;
        state = state + (((state_t)count << STATE_COUNT_AT)
                         | ((state_t)worker_bit << STATE_CONTRIBUTORS_AT)
                         | (1 << STATE_ARRIVED_AT));
    }

    @hidden action join_first() {
        verdict = VERDICT_FIRST;
        join();
        states.write(slot, state);
    }

    @hidden action join_add() {
        verdict = VERDICT_ADD;
        join();
        states.write(slot, state);
    }

    @hidden action join_last() {
        verdict = VERDICT_LAST;
        join();
        close();
    }

    apply {
        if (STATE_ARRIVED(state) + 1 < quorum) {
            if (traits & TRAIT_FRESH == 0) {
                join_add();
            } else {
                join_first();
            }
        } else {
            join_last();
            if (traits & TRAIT_CUTS != 0) {
                mark_loss.apply(state, traits, effects, slot);
            }
        }
    }
}

#endif
