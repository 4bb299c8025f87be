// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The minimum of each of the 32 unsigned elements of a word: the complement of the complements' maximum.

#ifndef SUMWIRE_MIN32_P4_
#define SUMWIRE_MIN32_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "max32.p4"

// Computes in a, b and low.
control Min32(inout word_t minimum, in word_t incoming, inout word_t a, inout word_t b, inout word_t low) {
    Max32() max32;

    apply {
        minimum = ~minimum;
        max32.apply(minimum, ~incoming, a, b, low);
        minimum = ~minimum;
    }
}

#endif
