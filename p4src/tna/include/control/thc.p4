// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// THC before the lanes: 64 indices become 64 table values, four to a lane. Value i is bit 31 - i % 32 of piece i / 32 of
// each plane.

#ifndef SUMWIRE_TNA_THC_P4_
#define SUMWIRE_TNA_THC_P4_

#include "lookup.p4"

#define LOOKUP(lane, piece, high, low) \
    lookup_##lane.apply(hdr.lanes.l##lane, meta.codebook, hdr.planes.z3_##piece[high:low], \
                        hdr.planes.z2_##piece[high:low], hdr.planes.z1_##piece[high:low], \
                        hdr.planes.z0_##piece[high:low])

control TnaThc(inout tna_headers_t hdr, in tna_metadata_t meta) {
    TnaLookup() lookup_0;
    TnaLookup() lookup_1;
    TnaLookup() lookup_2;
    TnaLookup() lookup_3;
    TnaLookup() lookup_4;
    TnaLookup() lookup_5;
    TnaLookup() lookup_6;
    TnaLookup() lookup_7;
    TnaLookup() lookup_8;
    TnaLookup() lookup_9;
    TnaLookup() lookup_10;
    TnaLookup() lookup_11;
    TnaLookup() lookup_12;
    TnaLookup() lookup_13;
    TnaLookup() lookup_14;
    TnaLookup() lookup_15;

    apply {
        LOOKUP(0, 0, 31, 28);
        LOOKUP(1, 0, 27, 24);
        LOOKUP(2, 0, 23, 20);
        LOOKUP(3, 0, 19, 16);
        LOOKUP(4, 0, 15, 12);
        LOOKUP(5, 0, 11, 8);
        LOOKUP(6, 0, 7, 4);
        LOOKUP(7, 0, 3, 0);
        LOOKUP(8, 1, 31, 28);
        LOOKUP(9, 1, 27, 24);
        LOOKUP(10, 1, 23, 20);
        LOOKUP(11, 1, 19, 16);
        LOOKUP(12, 1, 15, 12);
        LOOKUP(13, 1, 11, 8);
        LOOKUP(14, 1, 7, 4);
        LOOKUP(15, 1, 3, 0);
    }
}

#endif
