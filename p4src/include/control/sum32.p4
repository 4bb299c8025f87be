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

control Sum32(inout word_t sum, in word_t addend, inout word_t overflow, inout word_t before) {
    // In a variable of its own: p4c would write the whole sum out again at every use of it.
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

control Sum32Fold(inout headers_t hdr, inout metadata_t meta) {
    Sum32() add0;
    Sum32() add1;
    Sum32() add2;
    Sum32() add3;
    Sum32() add4;
    Sum32() add5;
    Sum32() add6;
    Sum32() add7;

    // A header, though it is never on the wire: it costs packets of other ops nothing.
    pair_h scratch;

    action clear_scratch() {
        scratch.setValid();
        scratch.first = 0;
        scratch.second = 0;
    }

    apply {
        clear_scratch();
        add0.apply(WORD0, meta.sum.w0, scratch.first, scratch.second);
        add1.apply(WORD1, meta.sum.w1, scratch.first, scratch.second);
        add2.apply(WORD2, meta.sum.w2, scratch.first, scratch.second);
        add3.apply(WORD3, meta.sum.w3, scratch.first, scratch.second);
        add4.apply(WORD4, meta.sum.w4, scratch.first, scratch.second);
        add5.apply(WORD5, meta.sum.w5, scratch.first, scratch.second);
        add6.apply(WORD6, meta.sum.w6, scratch.first, scratch.second);
        add7.apply(WORD7, meta.sum.w7, scratch.first, scratch.second);
        if (scratch.first != 0) {
            meta.effects = meta.effects | EFFECT_OVERFLOWS;
        }
        scratch.setInvalid();
    }
}

#endif
