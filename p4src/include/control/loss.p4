// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Marks the result of a slot that closes: contributions that were void are missing in the sum, and the two low planes of
// a cut result are made up.

#ifndef SUMWIRE_LOSS_P4_
#define SUMWIRE_LOSS_P4_

#include "../metadata.p4"
#include "../state.p4"

// `states`: see control Slot. Applied once a slot has closed, by Join and by Verdict.
control MarkLoss(inout metadata_t meta)(register<state_t> states) {
    @hidden action mark() {
        if (STATE_VOIDED(meta.state) != 0) {
            meta.state = meta.state | ((state_t)FLAG_MISSING << STATE_FLAGS_AT);
        }
        if (meta.traits & TRAIT_CUTS != 0) {
            meta.state = meta.state | (state_t)CUT_RESULT;
            meta.traits = meta.traits | TRAIT_SIX_WORDS;
            meta.effects = meta.effects | EFFECT_FILLS;
        }
        states.write(meta.admission.slot, meta.state);
    }

    apply {
        mark();
    }
}

#endif
