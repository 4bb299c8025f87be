// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops: what each makes of the 32 unsigned elements of the slot's word, `held`, and of those of the
// contribution, `word`. A slot's first contribution is stored as it is.

#ifndef SUMWIRE_ELEMENTWISE_P4_
#define SUMWIRE_ELEMENTWISE_P4_

#include "../types.p4"
#include "elements.p4"

// It computes in a, b and c.
control Elementwise(in bit<8> op, inout word_t held, inout word_t word, inout word_t a, inout word_t b,
                    inout word_t c) {
    LargerElements() larger;

    apply {
        if (op == OP_MAX32) {
            larger.apply(held, word, a, b, c);
        } else {
            // MIN32: the complement of the complements' maximum.
            held = ~held;
            word = ~word;
            larger.apply(held, word, a, b, c);
            held = ~held;
        }
    }
}

#endif
