// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Marks the result of a slot that closes: contributions that were void are missing in the sum, and the two low planes of
// a cut result are made up.

#ifndef SUMWIRE_LOSS_P4_
#define SUMWIRE_LOSS_P4_

#include "../state.p4"

// `states`: see control Slot. Applied once a slot has closed, by Join and by Verdict.
control MarkLoss(inout state_t state, inout bit<16> traits, inout bit<8> effects, in slot_t slot)(
                 register<state_t> states) {
    @hidden action mark() {
        if (STATE_VOIDED(state) != 0) {
            state = state | ((state_t)FLAG_MISSING << STATE_FLAGS_AT);
        }
        if (traits & TRAIT_CUTS != 0) {
            state = state | (state_t)CUT_RESULT;
            traits = traits | TRAIT_SIX_WORDS;
            effects = effects | EFFECT_FILLS;
        }
        states.write(slot, state);
    }

    apply {
        mark();
    }
}

#endif
