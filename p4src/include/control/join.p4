// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The fast path: a whole contribution without flags to an open slot, as nearly every packet is. What the verdict would
// make of it, without the table.

#ifndef SUMWIRE_JOIN_P4_
#define SUMWIRE_JOIN_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "../state.p4"
#include "loss.p4"

// What a usual contribution is not, and what its slot's state does not have: a phase, a run to open, void workers.
const bit<16> TRAITS_UNUSUAL =
    TRAIT_OLDER | TRAIT_FROM_ABOVE | TRAIT_BARE | TRAIT_TRIMMED | TRAIT_VOID | TRAIT_REFUSED;
const state_t STATE_UNUSUAL = (0x3 << STATE_PHASE_AT) | (0x1 << STATE_OPENS_AT) | (0xFFFFFFFF << STATE_VOIDED_AT);

control Join(inout headers_t hdr, inout metadata_t meta)(register<state_t> states) {
    MarkLoss(states) mark_loss;

    // The sum is complete here: a root answers, a lower switch passes it on and waits.
    @hidden action close() {
        if (hdr.above.isValid()) {
            meta.effects = meta.effects | (EFFECT_CLOSES | EFFECT_GOES_UP);
            meta.state = meta.state | ((state_t)PHASE_WAITING << STATE_PHASE_AT);
        } else {
            meta.effects = meta.effects | (EFFECT_CLOSES | EFFECT_ANSWERS);
            meta.state = meta.state | ((state_t)PHASE_CLOSED << STATE_PHASE_AT);
        }
        states.write(meta.admission.slot, meta.state);
    }

    // A usual contribution joins: there is nothing to look at closely.
    @hidden action join() {
        meta.effects = EFFECT_FOLDS;
        meta.state = meta.state + (((state_t)hdr.sumwire.count << STATE_COUNT_AT)
                                   | ((state_t)meta.admission.worker_bit << STATE_CONTRIBUTORS_AT)
                                   | (1 << STATE_ARRIVED_AT));
    }

    @hidden action join_first() {
        meta.verdict = VERDICT_FIRST;
        join();
        states.write(meta.admission.slot, meta.state);
    }

    @hidden action join_add() {
        meta.verdict = VERDICT_ADD;
        join();
        states.write(meta.admission.slot, meta.state);
    }

    @hidden action join_last() {
        meta.verdict = VERDICT_LAST;
        join();
        close();
    }

    apply {
        if (STATE_ARRIVED(meta.state) + 1 < meta.admission.quorum) {
            if (meta.traits & TRAIT_FRESH == 0) {
                join_add();
            } else {
                join_first();
            }
        } else {
            join_last();
            if (meta.traits & TRAIT_CUTS != 0) {
                mark_loss.apply(meta);
            }
        }
    }
}

#endif
