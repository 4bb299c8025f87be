// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// SIGN: which values this worker decides. Marsit's merge leaves each value the sign of one worker, each with the same
// probability. Here the control plane draws in advance who that is: a row of these tables has the values of one seat in
// one draw, and the rows of a draw divide the values among all seats. So the signs need no order: their sum is the merge.

#ifndef SUMWIRE_TNA_MASK_P4_
#define SUMWIRE_TNA_MASK_P4_

#include "../headers.p4"
#include "../metadata.p4"

control TnaMask(inout bit<32> a, inout bit<32> b, inout bit<32> c, inout bit<32> d,
                in bit<8> op, in bit<8> seat, in bit<8> draw) {
    action keep(bit<32> mask_a, bit<32> mask_b, bit<32> mask_c, bit<32> mask_d) {
        a = a & mask_a;
        b = b & mask_b;
        c = c & mask_c;
        d = d & mask_d;
    }

    table masks {
        key = {
            op : exact;  // a row says SIGN: packets of other ops are left alone
            seat : exact;
            draw : exact;
        }
        actions = {
            keep;
        }
        size = TNA_MASKS;
    }

    apply {
        masks.apply();
    }
}

// The draw of a slot's round, the same for all workers.
control TnaDraw(in tna_headers_t hdr, inout tna_metadata_t meta) {
    Hash<bit<8>>(HashAlgorithm_t.CRC32) hash;

    action draw() {
        meta.draw = hash.get({hdr.sumwire.job, hdr.sumwire.slot, hdr.sumwire.round});
    }

    apply {
        draw();
    }
}

#endif
