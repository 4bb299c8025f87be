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

    apply {
        mask_0.apply(hdr.lanes.l0, hdr.lanes.l1, hdr.lanes.l2, hdr.lanes.l3,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_4.apply(hdr.lanes.l4, hdr.lanes.l5, hdr.lanes.l6, hdr.lanes.l7,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_8.apply(hdr.lanes.l8, hdr.lanes.l9, hdr.lanes.l10, hdr.lanes.l11,
            hdr.sumwire.op, meta.seat, meta.draw);
        mask_12.apply(hdr.lanes.l12, hdr.lanes.l13, hdr.lanes.l14, hdr.lanes.l15,
            hdr.sumwire.op, meta.seat, meta.draw);
    }
}

#endif
