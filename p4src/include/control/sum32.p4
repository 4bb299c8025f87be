// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of each of the 32 signed elements of each word.

#ifndef SUMWIRE_SUM32_P4_
#define SUMWIRE_SUM32_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "elements.p4"

control Sum32Fold(inout word_h word0, inout word_h word1, inout pair_h pair2, inout pair_h pair4,
                  inout pair_h pair6, in payload_t addend, inout bit<8> effects, out word_t overflow) {
    AddElements() add0;
    AddElements() add1;
    AddElements() add2;
    AddElements() add3;
    AddElements() add4;
    AddElements() add5;
    AddElements() add6;
    AddElements() add7;

    apply {
        overflow = 0;
        add0.apply(word0.bits, addend.w0, overflow);
        add1.apply(word1.bits, addend.w1, overflow);
        add2.apply(pair2.first, addend.w2, overflow);
        add3.apply(pair2.second, addend.w3, overflow);
        add4.apply(pair4.first, addend.w4, overflow);
        add5.apply(pair4.second, addend.w5, overflow);
        add6.apply(pair6.first, addend.w6, overflow);
        add7.apply(pair6.second, addend.w7, overflow);
        if (overflow != 0) {
            effects = effects | EFFECT_OVERFLOWS;
        }
    }
}

#endif
