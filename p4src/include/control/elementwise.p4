// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops: what each makes of the 32 unsigned elements of the slot's word, WORD0, and of those of the
// contribution, meta.sum.w0. A slot's first contribution is stored as it is.

#ifndef SUMWIRE_ELEMENTWISE_P4_
#define SUMWIRE_ELEMENTWISE_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "elements.p4"

// Every second element is compared at a time, in cells of 64 bits: (1 << 32 | a) - b keeps bit 32 exactly if a >= b,
// and no borrow leaves the cell. That bit minus itself shifted down to bit 0 is a mask of the whole element.
control Maximum(inout headers_t hdr, inout metadata_t meta) {
    word_t wins;

    // w1 = the larger of w1 and w2, in the low half of every 64-bit cell.
    @hidden action keep_larger() {
        wins = ((meta.sum.w1 | ELEMENTS_GUARD) - meta.sum.w2) & ELEMENTS_GUARD;
        wins = wins - (wins >> ELEMENT_BITS);
        meta.sum.w1 = meta.sum.w2 ^ ((meta.sum.w1 ^ meta.sum.w2) & wins);
    }

    apply {
        meta.sum.w1 = WORD0 & ELEMENTS_LOW;
        meta.sum.w2 = meta.sum.w0 & ELEMENTS_LOW;
        keep_larger();
        meta.sum.w3 = meta.sum.w1;
        meta.sum.w1 = (WORD0 >> ELEMENT_BITS) & ELEMENTS_LOW;
        meta.sum.w2 = (meta.sum.w0 >> ELEMENT_BITS) & ELEMENTS_LOW;
        keep_larger();
        WORD0 = meta.sum.w3 | (meta.sum.w1 << ELEMENT_BITS);
    }
}

control Elementwise(inout headers_t hdr, inout metadata_t meta) {
    Maximum() maximum;

    apply {
        if (hdr.sumwire.op == OP_MAX32) {
            maximum.apply(hdr, meta);
        } else {
            // MIN32: the complement of the complements' maximum.
            WORD0 = ~WORD0;
            meta.sum.w0 = ~meta.sum.w0;
            maximum.apply(hdr, meta);
            WORD0 = ~WORD0;
        }
    }
}

#endif
