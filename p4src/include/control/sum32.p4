// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Lane-wise sum of 32 signed 32-bit lanes in one word. A sum that leaves its lane's range wraps, and its sign
// bit is set in `overflow`: both addends have the same sign and the sum has the other.

#ifndef SUMWIRE_SUM32_P4_
#define SUMWIRE_SUM32_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "lanes.p4"

control Sum32(inout word_t sum, in word_t addend, inout word_t overflow) {
    // Kept in a variable that outlives the sum: p4c would write the sum out again at every use of it.
    word_t before;

    action add() {
        before = sum;
        sum = (((sum & LANES_LOW) + (addend & LANES_LOW)) & LANES_LOW)
            | (((sum & LANES_HIGH) + (addend & LANES_HIGH)) & LANES_HIGH);
        overflow = overflow | ((before ^ sum) & (addend ^ sum) & LANES_SIGN);
    }

    apply {
        add();
    }
}

control Sum32Fold(inout metadata_t meta, inout payload_t sum, in payload_t stored) {
    Sum32() lanes0;
    Sum32() lanes1;
    Sum32() lanes2;
    Sum32() lanes3;
    Sum32() lanes4;
    Sum32() lanes5;
    Sum32() lanes6;
    Sum32() lanes7;

    word_t overflow = 0;

    apply {
        if (meta.state.fresh == 0) {
            lanes0.apply(sum.w0, stored.w0, overflow);
            lanes1.apply(sum.w1, stored.w1, overflow);
            lanes2.apply(sum.w2, stored.w2, overflow);
            lanes3.apply(sum.w3, stored.w3, overflow);
            lanes4.apply(sum.w4, stored.w4, overflow);
            lanes5.apply(sum.w5, stored.w5, overflow);
            lanes6.apply(sum.w6, stored.w6, overflow);
            lanes7.apply(sum.w7, stored.w7, overflow);
            if (overflow != 0) {
                meta.state.flags = meta.state.flags | FLAG_OVERFLOW;
            }
        }
    }
}

#endif
