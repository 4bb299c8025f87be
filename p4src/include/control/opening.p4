// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a packet is of the slot's round, or begins a round or a run in it, or is refused (docs/protocol.md). Slot
// applies it before the verdict.

#ifndef SUMWIRE_OPENING_P4_
#define SUMWIRE_OPENING_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "../state.p4"

// Serial-number arithmetic (RFC 1982): a round is newer if it is ahead by less than half the circle.
const bit<32> ROUNDS_HALF = 0x80000000;

// `runs`: see control Slot.
control Opening(inout headers_t hdr, inout metadata_t meta)(register<state_t> runs) {
    // How far the packet's round is ahead of the slot's. A HELLO asks for the round that the slot has.
    @hidden action compare_rounds() {
        meta.scratch = hdr.sumwire.round - STATE_ROUND(meta.state);
        if (hdr.sumwire.op == OP_NONE) {
            meta.scratch = 0;
        }
    }

    @hidden action forget_state() {
        meta.traits = meta.traits | TRAIT_FRESH;
        meta.state = meta.admission.opening ++ 104w0;
    }

    // The round begins a run, if it closes.
    @hidden action opens_run() {
        meta.state = meta.state | (1 << STATE_OPENS_AT);
    }

    // The generation that the packet names, or the job's. A greeting's token is that generation, and the first element of
    // what opens a run. So what was sent to a switch before it forgot its slots begins nothing in it afterwards.
    @hidden action read_generation() {
        meta.scratch = OPENING_OWNER(meta.admission.opening);
        if (meta.traits & (TRAIT_FROM_ABOVE | TRAIT_BARE) == 0) {
            if (hdr.sumwire.token >= TOKENS_OF_RUNS) {
                if (hdr.sumwire.bucket == BUCKET_OPENS_RUN) {
                    meta.scratch = WORD0[1023:992];
                }
            } else if (hdr.sumwire.token != TOKEN_NONE) {
                meta.scratch = hdr.sumwire.token[31:0];
            }
        }
    }

    @hidden action read_run() {
        runs.read(meta.joined, meta.admission.slot - (slot_t)hdr.sumwire.slot);
    }

    // How far the packet's round is ahead of the one in which the job's run was opened.
    @hidden action compare_with_opening() {
        meta.scratch = hdr.sumwire.round - STATE_ROUND(meta.joined);
    }

    @hidden action is_older() {
        meta.traits = meta.traits | TRAIT_OLDER;
    }

    @hidden action is_of_another_call() {
        meta.traits = meta.traits | TRAIT_REFUSED;
        meta.reject = REJECT_CALL;
    }

    @hidden action is_of_another_run() {
        meta.traits = meta.traits | TRAIT_REFUSED;
        meta.reject = REJECT_TOKEN;
    }

    @hidden action is_of_another_round() {
        meta.traits = meta.traits | TRAIT_REFUSED;
        meta.reject = REJECT_ROUND;
    }

    apply {
        if (STATE_OPENING(meta.state) != meta.admission.opening) {
            compare_rounds();
            if (STATE_RUN(meta.state) == OPENING_RUN(meta.admission.opening) && meta.scratch == 1) {
                // Nearly always: the next round of the slot's run.
                forget_state();
            } else if (hdr.sumwire.token < TOKENS_OF_RUNS || hdr.sumwire.bucket == BUCKET_OPENS_RUN ||
                       meta.traits & TRAIT_ANY_CALL != 0 ||
                       (meta.admission.sprays == SPRAY_HASH && !hdr.above.isValid())) {
                // What belongs to no run, and all where a slot's rounds are divided among several roots: the round alone
                // decides.
                if (STATE_OWNER(meta.state) != OPENING_OWNER(meta.admission.opening) ||
                    (meta.scratch != 0 && meta.scratch < ROUNDS_HALF)) {
                    read_generation();
                    if (meta.scratch != OPENING_OWNER(meta.admission.opening)) {
                        is_of_another_run();
                    } else {
                        forget_state();
                        if (hdr.sumwire.token >= TOKENS_OF_RUNS && hdr.sumwire.bucket == BUCKET_OPENS_RUN) {
                            opens_run();
                        }
                    }
                } else if (meta.scratch != 0) {
                    is_older();
                } else if (meta.traits & TRAIT_ANY_CALL == 0) {
                    is_of_another_call();
                }
            } else if (STATE_RUN(meta.state) == OPENING_RUN(meta.admission.opening)) {
                if (meta.scratch == 0) {
                    is_of_another_call();
                } else if (meta.scratch >= ROUNDS_HALF) {
                    is_older();
                } else if (hdr.above.isValid() || meta.admission.sprays == SPRAY_ROOT) {
                    // Results that a lower switch has missed its workers may have from others. At a root the slot may
                    // have been another root's meanwhile.
                    forget_state();
                } else {
                    is_of_another_round();
                }
            } else {
                // The slot's first packet of this run, if the run is the job's: in the round of the opening or the next.
                // A switch that has others below takes any later one, as above. Where a newer greeting has begun in the
                // slot the run has no rounds any more: a late packet must not close one of them a second time.
                read_run();
                if (STATE_RUN(meta.joined) != OPENING_RUN(meta.admission.opening)) {
                    is_of_another_run();
                } else if (STATE_OWNER(meta.state) == OPENING_OWNER(meta.admission.opening) && meta.scratch == 0) {
                    is_of_another_call();
                } else if (STATE_OWNER(meta.state) == OPENING_OWNER(meta.admission.opening) &&
                           meta.scratch >= ROUNDS_HALF) {
                    is_older();
                } else {
                    compare_with_opening();
                    if (meta.scratch <= 1 ||
                        (meta.scratch < ROUNDS_HALF &&
                         (hdr.above.isValid() || meta.admission.sprays == SPRAY_ROOT))) {
                        forget_state();
                    } else {
                        is_of_another_round();
                    }
                }
            }
        }
    }
}

#endif
