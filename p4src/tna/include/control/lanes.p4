// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// All lanes of a slot: four to a stage, in four stages.

#ifndef SUMWIRE_TNA_LANES_P4_
#define SUMWIRE_TNA_LANES_P4_

#include "lane.p4"

control TnaLanes(inout tna_headers_t hdr, in tna_metadata_t meta) {
    TnaLane() lane_0;
    TnaLane() lane_1;
    TnaLane() lane_2;
    TnaLane() lane_3;
    TnaLane() lane_4;
    TnaLane() lane_5;
    TnaLane() lane_6;
    TnaLane() lane_7;
    TnaLane() lane_8;
    TnaLane() lane_9;
    TnaLane() lane_10;
    TnaLane() lane_11;
    TnaLane() lane_12;
    TnaLane() lane_13;
    TnaLane() lane_14;
    TnaLane() lane_15;

    apply {
        lane_0.apply(hdr.lanes.l0, meta.cell, meta.lane_op);
        lane_1.apply(hdr.lanes.l1, meta.cell, meta.lane_op);
        lane_2.apply(hdr.lanes.l2, meta.cell, meta.lane_op);
        lane_3.apply(hdr.lanes.l3, meta.cell, meta.lane_op);
        lane_4.apply(hdr.lanes.l4, meta.cell, meta.lane_op);
        lane_5.apply(hdr.lanes.l5, meta.cell, meta.lane_op);
        lane_6.apply(hdr.lanes.l6, meta.cell, meta.lane_op);
        lane_7.apply(hdr.lanes.l7, meta.cell, meta.lane_op);
        lane_8.apply(hdr.lanes.l8, meta.cell, meta.lane_op);
        lane_9.apply(hdr.lanes.l9, meta.cell, meta.lane_op);
        lane_10.apply(hdr.lanes.l10, meta.cell, meta.lane_op);
        lane_11.apply(hdr.lanes.l11, meta.cell, meta.lane_op);
        lane_12.apply(hdr.lanes.l12, meta.cell, meta.lane_op);
        lane_13.apply(hdr.lanes.l13, meta.cell, meta.lane_op);
        lane_14.apply(hdr.lanes.l14, meta.cell, meta.lane_op);
        lane_15.apply(hdr.lanes.l15, meta.cell, meta.lane_op);
    }
}

#endif
