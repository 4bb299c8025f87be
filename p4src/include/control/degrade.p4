// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Loss on purpose, for experiments. Of a job with a row here a share of the contributions or results loses its low
// planes, or a share of the contributions is void: they arrive, but the sum is without them. A hash chooses which, so
// that an experiment can be repeated, and so that cutting and dropping hit the same packets. A resend (FLAG_RESYNC) is
// spared.

#ifndef SUMWIRE_DEGRADE_P4_
#define SUMWIRE_DEGRADE_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
#include "mix.p4"

control Degrade(inout headers_t hdr, inout metadata_t meta) {
    Mix32() mix;
    bit<32> hashed;
    bit<32> hit_share;  // of 2^16
    bit<8> what;
    bit<1> hit;
    bit<1> resent;

    @id(ID_ACTION_DEGRADE)
    action degrade(@id(1) bit<32> seed, @id(2) bit<32> share, @id(3) bit<8> mode) {
        what = mode;
        hit_share = share;
        resent = hdr.sumwire.flags[5:5];
        // Results are chosen by slot and round alone, whichever worker's contribution closes the slot.
        hashed = seed ^ ((bit<32>)hdr.sumwire.slot * SALT_SLOT) ^ (hdr.sumwire.round * SALT_ROUND)
            ^ (mode == DEGRADE_RESULTS ? 0 : (bit<32>)hdr.sumwire.worker * SALT_WORKER);
    }

    @id(ID_ACTION_LEAVE)
    action leave() {
        what = 0;
        hit_share = 0;
        resent = 0;
        hashed = 0;
    }

    @id(ID_TABLE_DEGRADE)
    @name("degrade")
    table row {
        key = {
            hdr.sumwire.job : exact @id(1) @name("job");
        }
        actions = {
            degrade;
            @defaultonly leave;
        }
        const default_action = leave();
        size = JOBS_MAX;
    }

    action decide() {
        hit = (bit<1>)((hashed & 0xFFFF) < hit_share);
    }

    action trim() {
        // What is in the two low words is overwritten, see fill_indices.
        hdr.sumwire.words = THC_WORDS_TRIMMED;
        hdr.sumwire.flags = hdr.sumwire.flags | FLAG_TRIMMED;
        meta.trimmed = 1;
        meta.cuts = 1;
        meta.six_words = 1;
    }

    apply {
        if (hdr.sumwire.op == OP_THC && hdr.sumwire.words == THC_WORDS_UP && meta.uplink.phase == PHASE_CLOSED) {
            if (row.apply().hit) {
                mix.apply(hashed);
                decide();
                if (hit == 1) {
                    if (what == DEGRADE_RESULTS) {
                        meta.cuts = 1;
                    } else if (what == DEGRADE_TRIM && resent == 0) {
                        trim();
                    } else if (what == DEGRADE_DROP && resent == 0) {
                        meta.voids = 1;
                    }
                }
            }
        }
    }
}

#endif
