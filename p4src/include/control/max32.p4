// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The maximum of each of the 32 unsigned elements of a word. Every second element is compared at a time, in cells of 64
// bits: (1 << 32 | a) - b keeps bit 32 exactly if a >= b, and no borrow leaves the cell. That bit minus itself shifted
// down to bit 0 is a mask of the whole element.

#ifndef SUMWIRE_MAX32_P4_
#define SUMWIRE_MAX32_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "elements.p4"

// Computes in a, b and low.
control Max32(inout word_t maximum, in word_t incoming, inout word_t a, inout word_t b, inout word_t low) {
    word_t wins;

    // a = the larger of a and b, in the low half of every 64-bit cell.
    action keep_larger() {
        wins = ((a | ELEMENTS_GUARD) - b) & ELEMENTS_GUARD;
        wins = wins - (wins >> ELEMENT_BITS);
        a = b ^ ((a ^ b) & wins);
    }

    apply {
        a = maximum & ELEMENTS_LOW;
        b = incoming & ELEMENTS_LOW;
        keep_larger();
        low = a;
        a = (maximum >> ELEMENT_BITS) & ELEMENTS_LOW;
        b = (incoming >> ELEMENT_BITS) & ELEMENTS_LOW;
        keep_larger();
        maximum = low | (a << ELEMENT_BITS);
    }
}

#endif
