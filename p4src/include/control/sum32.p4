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

// The wrapped sum of two words.
#define SUM_OF_ELEMENTS(a, b) \
    ((((a & ELEMENTS_LOW) + (b & ELEMENTS_LOW)) & ELEMENTS_LOW) \
     | (((a & ELEMENTS_HIGH) + (b & ELEMENTS_HIGH)) & ELEMENTS_HIGH))

control Sum32(inout word_t sum, in word_t addend, inout word_t overflow) {
    @hidden action add() {
        overflow = overflow
            | ((sum ^ SUM_OF_ELEMENTS(sum, addend)) & (((sum ^ addend) & ELEMENTS_SIGN) ^ ELEMENTS_SIGN));
        sum = SUM_OF_ELEMENTS(sum, addend);
    }

    apply {
        add();
    }
}

control Sum32Fold(inout headers_t hdr, inout metadata_t meta, out word_t overflow) {
    Sum32() add0;
    Sum32() add1;
    Sum32() add2;
    Sum32() add3;
    Sum32() add4;
    Sum32() add5;
    Sum32() add6;
    Sum32() add7;

    apply {
        overflow = 0;
        add0.apply(WORD0, meta.sum.w0, overflow);
        add1.apply(WORD1, meta.sum.w1, overflow);
        add2.apply(WORD2, meta.sum.w2, overflow);
        add3.apply(WORD3, meta.sum.w3, overflow);
        add4.apply(WORD4, meta.sum.w4, overflow);
        add5.apply(WORD5, meta.sum.w5, overflow);
        add6.apply(WORD6, meta.sum.w6, overflow);
        add7.apply(WORD7, meta.sum.w7, overflow);
        if (overflow != 0) {
            meta.effects = meta.effects | EFFECT_OVERFLOWS;
        }
    }
}

#endif
