// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Who is still missing in the slot. A packet of an older round changes nothing.

#ifndef SUMWIRE_TNA_CONTRIBUTORS_P4_
#define SUMWIRE_TNA_CONTRIBUTORS_P4_

#include "../headers.p4"
#include "../metadata.p4"

control TnaContributors(inout tna_metadata_t meta) {
    Register<bitmap_t, cell_t>(TNA_SLOTS) missing;

    RegisterAction<bitmap_t, cell_t, bitmap_t>(missing) missing_first = {
        void apply(inout bitmap_t slot) {
            slot = meta.others;
        }
    };

    RegisterAction<bitmap_t, cell_t, bitmap_t>(missing) missing_next = {
        void apply(inout bitmap_t slot, out bitmap_t found) {
            found = slot;
            slot = slot & ~meta.worker_bit;
        }
    };

    action first() {
        missing_first.execute(meta.cell);
    }

    action next() {
        meta.missing = missing_next.execute(meta.cell);
    }

    table contributors {
        key = {
            meta.fresh : exact;
        }
        actions = {
            first;
            next;
        }
        const entries = {
            1 : first();
            0 : next();
        }
        size = 2;
    }

    apply {
        if (meta.newer_round == 0) {
            contributors.apply();
        }
    }
}

#endif
