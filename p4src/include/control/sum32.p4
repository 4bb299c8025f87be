// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of each of the 32 signed elements of each word.

#ifndef SUMWIRE_SUM32_P4_
#define SUMWIRE_SUM32_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "elements.p4"

control Sum32Fold(inout headers_t hdr, inout metadata_t meta, out word_t overflow) {
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
