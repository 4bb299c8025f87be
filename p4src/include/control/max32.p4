// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Lane-wise maximum of 32 unsigned 32-bit lanes in one word. Every second lane is compared at a time, in
// cells of 64 bits: (1 << 32 | a) - b keeps bit 32 exactly if a >= b, and no borrow leaves the cell. That
// bit, less itself shifted down to bit 0, is a mask of the whole lane.

#ifndef SUMWIRE_MAX32_P4_
#define SUMWIRE_MAX32_P4_

#include "../headers.p4"

const word_t MAX32_LOW_LANES =
    1024w0x00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF00000000FFFFFFFF;
const word_t MAX32_GUARDS =
    1024w0x0000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000;

control Max32(inout word_t maximum, in word_t incoming) {
    word_t a;
    word_t b;
    word_t wins;
    word_t low;

    // a = the larger of a and b, in the low half of every 64-bit cell.
    action keep_larger() {
        wins = ((a | MAX32_GUARDS) - b) & MAX32_GUARDS;
        wins = wins - (wins >> LANE_BITS);
        a = b ^ ((a ^ b) & wins);
    }

    apply {
        a = maximum & MAX32_LOW_LANES;
        b = incoming & MAX32_LOW_LANES;
        keep_larger();
        low = a;
        a = (maximum >> LANE_BITS) & MAX32_LOW_LANES;
        b = (incoming >> LANE_BITS) & MAX32_LOW_LANES;
        keep_larger();
        maximum = low | (a << LANE_BITS);
    }
}

#endif
