// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a packet opens its slot's next round, is of its round, or is of an older one. Two stateful ALUs keep the same
// round and run, because each gives one answer.

#ifndef SUMWIRE_TNA_OPENING_P4_
#define SUMWIRE_TNA_OPENING_P4_

#include "../headers.p4"
#include "../metadata.p4"

control TnaOpening(in tna_headers_t hdr, inout tna_metadata_t meta) {
    Register<opening_pair_t, cell_t>(TNA_SLOTS) openings;
    Register<opening_pair_t, cell_t>(TNA_SLOTS) rounds;

    RegisterAction<opening_pair_t, cell_t, bit<1>>(openings) open = {
        void apply(inout opening_pair_t slot, out bit<1> fresh) {
            if (slot.round < hdr.sumwire.round || slot.run != hdr.sumwire.token[31:0]) {
                slot.round = hdr.sumwire.round;
                slot.run = hdr.sumwire.token[31:0];
                fresh = 1;
            } else {
                fresh = 0;
            }
        }
    };

    RegisterAction<opening_pair_t, cell_t, bit<32>>(rounds) compare = {
        void apply(inout opening_pair_t slot, out bit<32> newer_round) {
            if (slot.round > hdr.sumwire.round && slot.run == hdr.sumwire.token[31:0]) {
                newer_round = slot.round;
            } else {
                newer_round = 0;
                slot.round = hdr.sumwire.round;
                slot.run = hdr.sumwire.token[31:0];
            }
        }
    };

    action open_slot() {
        meta.fresh = open.execute(meta.cell);
    }

    action compare_rounds() {
        meta.newer_round = compare.execute(meta.cell);
    }

    apply {
        open_slot();
        compare_rounds();
    }
}

#endif
