// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of each of the 32 signed elements of a word. A sum that leaves the range of 32 bits wraps, and its sign bit
// is set in `overflow`: both addends have the same sign, and the sum has the other.

#ifndef SUMWIRE_SUM32_P4_
#define SUMWIRE_SUM32_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "elements.p4"

control Sum32(inout word_t sum, in word_t addend, inout word_t overflow) {
    // In a variable of its own: p4c would write the whole sum out again at every use of it.
    word_t before;

    action add() {
        before = sum;
        sum = (((sum & ELEMENTS_LOW) + (addend & ELEMENTS_LOW)) & ELEMENTS_LOW)
            | (((sum & ELEMENTS_HIGH) + (addend & ELEMENTS_HIGH)) & ELEMENTS_HIGH);
        overflow = overflow | ((before ^ sum) & (addend ^ sum) & ELEMENTS_SIGN);
    }

    apply {
        add();
    }
}

control Sum32Fold(inout metadata_t meta, inout payload_t sum, in payload_t stored) {
    Sum32() add0;
    Sum32() add1;
    Sum32() add2;
    Sum32() add3;
    Sum32() add4;
    Sum32() add5;
    Sum32() add6;
    Sum32() add7;

    word_t overflow = 0;

    apply {
        if (meta.state.fresh == 0) {
            add0.apply(sum.w0, stored.w0, overflow);
            add1.apply(sum.w1, stored.w1, overflow);
            add2.apply(sum.w2, stored.w2, overflow);
            add3.apply(sum.w3, stored.w3, overflow);
            add4.apply(sum.w4, stored.w4, overflow);
            add5.apply(sum.w5, stored.w5, overflow);
            add6.apply(sum.w6, stored.w6, overflow);
            add7.apply(sum.w7, stored.w7, overflow);
            if (overflow != 0) {
                meta.state.flags = meta.state.flags | FLAG_OVERFLOW;
            }
        }
    }
}

#endif
