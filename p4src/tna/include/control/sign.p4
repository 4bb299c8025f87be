// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// SIGN before the lanes: of each value's sign, what this worker's seat leaves.

#ifndef SUMWIRE_TNA_SIGN_P4_
#define SUMWIRE_TNA_SIGN_P4_

#include "mask.p4"

control TnaSign(inout tna_headers_t hdr, in tna_metadata_t meta) {
    TnaMask() mask_0;
    TnaMask() mask_4;
    TnaMask() mask_8;
    TnaMask() mask_12;
    TnaMask() mask_16;
    TnaMask() mask_20;
    TnaMask() mask_24;
    TnaMask() mask_28;

    apply {
        mask_0.apply(hdr.lanes.l0, hdr.lanes.l1, hdr.lanes.l2, hdr.lanes.l3,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_4.apply(hdr.lanes.l4, hdr.lanes.l5, hdr.lanes.l6, hdr.lanes.l7,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_8.apply(hdr.lanes.l8, hdr.lanes.l9, hdr.lanes.l10, hdr.lanes.l11,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_12.apply(hdr.lanes.l12, hdr.lanes.l13, hdr.lanes.l14, hdr.lanes.l15,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_16.apply(hdr.lanes.l16, hdr.lanes.l17, hdr.lanes.l18, hdr.lanes.l19,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_20.apply(hdr.lanes.l20, hdr.lanes.l21, hdr.lanes.l22, hdr.lanes.l23,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_24.apply(hdr.lanes.l24, hdr.lanes.l25, hdr.lanes.l26, hdr.lanes.l27,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_28.apply(hdr.lanes.l28, hdr.lanes.l29, hdr.lanes.l30, hdr.lanes.l31,
            hdr.sumwire.op, meta.seat, meta.draw);
    }
}

#endif
