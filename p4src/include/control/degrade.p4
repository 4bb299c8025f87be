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

    @id(ID_ACTION_DEGRADE)
    @brief("Lose on purpose")
    @description("seed: of the choice. share: how many of 65536 packets. mode: 1 trims, 2 drops, 4 trims results.")
    action degrade(@id(1) bit<32> seed, @id(2) bit<32> share, @id(3) bit<8> mode) {
        meta.degrade = mode ++ share;
        meta.scratch = seed ^ ((bit<32>)hdr.sumwire.slot * SALT_SLOT) ^ (hdr.sumwire.round * SALT_ROUND);
        // Results are chosen by slot and round alone, whichever worker's contribution closes the slot.
        if (mode != DEGRADE_RESULTS) {
            meta.scratch = meta.scratch ^ ((bit<32>)hdr.sumwire.worker * SALT_WORKER);
        }
    }

    @id(ID_ACTION_LEAVE)
    @brief("Lose nothing") @description("The job loses nothing on purpose.")
    action leave() {
    }

    @id(ID_TABLE_DEGRADE)
    @brief("Losses on purpose") @description("By job: for experiments. A job without a row loses nothing.")
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

    @hidden action trim() {
        // What is in the two low words is overwritten, see fill_indices.
        hdr.sumwire.words = THC_WORDS_TRIMMED;
        hdr.sumwire.flags = hdr.sumwire.flags | FLAG_TRIMMED;
        meta.traits = meta.traits | (TRAIT_TRIMMED | TRAIT_CUTS | TRAIT_SIX_WORDS);
    }

    apply {
        if (hdr.sumwire.op == OP_THC && hdr.sumwire.words == THC_WORDS_UP && !hdr.above.isValid()) {
            if (row.apply().hit) {
                mix.apply(meta.scratch);
                if ((meta.scratch & 0xFFFF) < meta.degrade[31:0]) {
                    if (meta.degrade[39:32] == DEGRADE_RESULTS) {
                        meta.traits = meta.traits | TRAIT_CUTS;
                    } else if (hdr.sumwire.flags & FLAG_RESYNC == 0) {
                        if (meta.degrade[39:32] == DEGRADE_TRIM) {
                            trim();
                        } else if (meta.degrade[39:32] == DEGRADE_DROP) {
                            meta.traits = meta.traits | TRAIT_VOID;
                        }
                    }
                }
            }
        }
    }
}

#endif
