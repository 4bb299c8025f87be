// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a packet is of the slot's round, or begins a round or a run in it, or is refused (docs/protocol.md). Slot
// applies it before the verdict.

#ifndef SUMWIRE_OPENING_P4_
#define SUMWIRE_OPENING_P4_

#include "../state.p4"

// Serial-number arithmetic (RFC 1982): a round is newer if it is ahead by less than half the circle.
const bit<32> ROUNDS_HALF = 0x80000000;

// `runs`: see control Slot, and `run` is the job's cell there. `run_state` and `ahead` are what it computes in. The packet
// has `round`, `token` and `bucket`, and begins with `generation` if it opens a run; `hello`: it asks for the round that
// the slot has. `above`: there is a switch above.
control Opening(inout state_t state, inout state_t run_state, inout bit<32> ahead, inout bit<16> traits,
                inout bit<32> reject, in opening_t opening, in slot_t run, in bit<32> round, in token_t token,
                in bit<16> bucket, in bit<32> generation, in bool hello, in spray_t sprays, in bool above)(
                register<state_t> runs) {
    // How far the packet's round is ahead of the slot's. A HELLO asks for the round that the slot has.
    @hidden action compare_rounds() {
        ahead = round - STATE_ROUND(state);
        if (hello) {
            ahead = 0;
        }
    }

    @hidden action forget_state() {
        traits = traits | TRAIT_FRESH;
        state = opening ++ 104w0;
    }

    // The round begins a run, if it closes.
    @hidden action opens_run() {
        state = state | (1 << STATE_OPENS_AT);
    }

    // The generation that the packet names, or the job's. A greeting's token is that generation, and the first element of
    // what opens a run. So what was sent to a switch before it forgot its slots begins nothing in it afterwards.
    @hidden action read_generation() {
        ahead = OPENING_OWNER(opening);
        if (traits & (TRAIT_FROM_ABOVE | TRAIT_BARE) == 0) {
            if (token >= TOKENS_OF_RUNS) {
                if (bucket == BUCKET_OPENS_RUN) {
                    ahead = generation;
                }
            } else if (token != TOKEN_NONE) {
                ahead = token[31:0];
            }
        }
    }

    @hidden action read_run() {
        runs.read(run_state, run);
    }

    // How far the packet's round is ahead of the one in which the job's run was opened.
    @hidden action compare_with_opening() {
        ahead = round - STATE_ROUND(run_state);
    }

    @hidden action is_older() {
        traits = traits | TRAIT_OLDER;
    }

    @hidden action is_of_another_call() {
        traits = traits | TRAIT_REFUSED;
        reject = REJECT_CALL;
    }

    @hidden action is_of_another_run() {
        traits = traits | TRAIT_REFUSED;
        reject = REJECT_TOKEN;
    }

    @hidden action is_of_another_round() {
        traits = traits | TRAIT_REFUSED;
        reject = REJECT_ROUND;
    }

    apply {
        if (STATE_OPENING(state) != opening) {
            compare_rounds();
            if (STATE_RUN(state) == OPENING_RUN(opening) && ahead == 1) {
                // Nearly always: the next round of the slot's run.
                forget_state();
            } else if (token < TOKENS_OF_RUNS || bucket == BUCKET_OPENS_RUN ||
                       traits & TRAIT_ANY_CALL != 0 ||
                       (sprays == SPRAY_HASH && !above)) {
                // What belongs to no run, and all where a slot's rounds are divided among several roots: the round alone
                // decides.
                if (STATE_OWNER(state) != OPENING_OWNER(opening) ||
                    (ahead != 0 && ahead < ROUNDS_HALF)) {
                    read_generation();
                    if (ahead != OPENING_OWNER(opening)) {
                        is_of_another_run();
                    } else {
                        forget_state();
                        if (token >= TOKENS_OF_RUNS && bucket == BUCKET_OPENS_RUN) {
                            opens_run();
                        }
                    }
                } else if (ahead != 0) {
                    is_older();
                } else if (traits & TRAIT_ANY_CALL == 0) {
                    is_of_another_call();
                }
            } else if (STATE_RUN(state) == OPENING_RUN(opening)) {
                if (ahead == 0) {
                    is_of_another_call();
                } else if (ahead >= ROUNDS_HALF) {
                    is_older();
                } else if (above || sprays == SPRAY_ROOT) {
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
                if (STATE_RUN(run_state) != OPENING_RUN(opening)) {
                    is_of_another_run();
                } else if (STATE_OWNER(state) == OPENING_OWNER(opening) && ahead == 0) {
                    is_of_another_call();
                } else if (STATE_OWNER(state) == OPENING_OWNER(opening) &&
                           ahead >= ROUNDS_HALF) {
                    is_older();
                } else {
                    compare_with_opening();
                    if (ahead <= 1 ||
                        (ahead < ROUNDS_HALF &&
                         (above || sprays == SPRAY_ROOT))) {
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
