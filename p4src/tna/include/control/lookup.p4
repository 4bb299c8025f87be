// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// THC's table lookup: two indices of four bits in, two table values of a byte out. Four values fill a lane.

#ifndef SUMWIRE_TNA_LOOKUP_P4_
#define SUMWIRE_TNA_LOOKUP_P4_

#include "../headers.p4"
#include "../metadata.p4"

// The tables have no condition around them: on Tofino 1 a condition would keep the lanes behind them all. `codebook` is 0
// for packets of other ops, and has no rows then.
control TnaLookup(inout bit<32> lane, in bit<4> codebook, in bit<4> z3, in bit<4> z2, in bit<4> z1, in bit<4> z0) {
    action values_01(bit<16> values) {
        lane[31:16] = values;
    }

    action values_23(bit<16> values) {
        lane[15:0] = values;
    }

    table pair_01 {
        key = {
            codebook : exact;
            z3[3:2] : exact;
            z2[3:2] : exact;
            z1[3:2] : exact;
            z0[3:2] : exact;
        }
        actions = {
            values_01;
        }
        size = TNA_PAIRS;
    }

    table pair_23 {
        key = {
            codebook : exact;
            z3[1:0] : exact;
            z2[1:0] : exact;
            z1[1:0] : exact;
            z0[1:0] : exact;
        }
        actions = {
            values_23;
        }
        size = TNA_PAIRS;
    }

    apply {
        pair_01.apply();
        pair_23.apply();
    }
}

#endif
