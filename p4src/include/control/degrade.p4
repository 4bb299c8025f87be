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
#include "../state.p4"
#include "mix.p4"

// `above`: there is a switch above.
control Degrade(inout sumwire_h sumwire, inout bit<16> traits, inout scratch_t scratch, in bool above) {
    Mix32() mix;

    @id(ID_ACTION_DEGRADE)
    @brief("Lose on purpose")
    @description("seed: of the choice. share: how many of 65536 packets. mode: 1 trims, 2 drops, 4 trims results.")
    action degrade(@id(1) bit<32> seed, @id(2) bit<32> share, @id(3) bit<8> mode) {
        scratch.chosen = mode ++ share;
        scratch.value = seed ^ ((bit<32>)sumwire.slot * SALT_SLOT) ^ (sumwire.round * SALT_ROUND);
        // Results are chosen by slot and round alone, whichever worker's contribution closes the slot.
        if (mode != DEGRADE_RESULTS) {
            scratch.value = scratch.value ^ ((bit<32>)sumwire.worker * SALT_WORKER);
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
            sumwire.job : exact @id(1) @name("job");
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
        sumwire.words = THC_WORDS_TRIMMED;
        sumwire.flags = sumwire.flags | FLAG_TRIMMED;
        traits = traits | (TRAIT_TRIMMED | TRAIT_CUTS | TRAIT_SIX_WORDS);
    }

    apply {
        if (sumwire.op == OP_THC && sumwire.words == THC_WORDS_UP && !above) {
            if (row.apply().hit) {
                mix.apply(scratch.value);
                if ((scratch.value & 0xFFFF) < scratch.chosen[31:0]) {
                    if (scratch.chosen[39:32] == DEGRADE_RESULTS) {
                        traits = traits | TRAIT_CUTS;
                    } else if (sumwire.flags & FLAG_RESYNC == 0) {
                        if (scratch.chosen[39:32] == DEGRADE_TRIM) {
                            trim();
                        } else if (scratch.chosen[39:32] == DEGRADE_DROP) {
                            traits = traits | TRAIT_VOID;
                        }
                    }
                }
            }
        }
    }
}

#endif
