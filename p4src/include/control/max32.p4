// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Lane-wise maximum of 32 unsigned 32-bit lanes in one word. Every second lane is compared at a time, in
// cells of 64 bits: (1 << 32 | a) - b keeps bit 32 exactly if a >= b, and no borrow leaves the cell. That
// bit, less itself shifted down to bit 0, is a mask of the whole lane.

#ifndef SUMWIRE_MAX32_P4_
#define SUMWIRE_MAX32_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "lanes.p4"

control Max32(inout word_t maximum, in word_t incoming) {
    word_t a;
    word_t b;
    word_t wins;
    word_t low;

    // a = the larger of a and b, in the low half of every 64-bit cell.
    action keep_larger() {
        wins = ((a | LANES_GUARD) - b) & LANES_GUARD;
        wins = wins - (wins >> LANE_BITS);
        a = b ^ ((a ^ b) & wins);
    }

    apply {
        a = maximum & LANES_LOW;
        b = incoming & LANES_LOW;
        keep_larger();
        low = a;
        a = (maximum >> LANE_BITS) & LANES_LOW;
        b = (incoming >> LANE_BITS) & LANES_LOW;
        keep_larger();
        maximum = low | (a << LANE_BITS);
    }
}

control Max32Fold(in metadata_t meta, inout payload_t sum, in payload_t stored) {
    Max32() max32;

    apply {
        if (meta.state.fresh == 0) {
            max32.apply(sum.w0, stored.w0);
        }
    }
}

#endif
