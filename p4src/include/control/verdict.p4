// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The verdict: what a slot makes of a packet that is not a usual contribution (docs/protocol.md#verdicts).

#ifndef SUMWIRE_VERDICT_P4_
#define SUMWIRE_VERDICT_P4_

#include "../ids.p4"
#include "../state.p4"
#include "loss.p4"

// Flags of a contribution that become flags of the result.
const bit<8> FLAGS_KEPT = FLAG_INCOMPLETE | FLAG_OVERFLOW | FLAG_TRIMMED | FLAG_CE | FLAG_MISSING;

// A packet's situation, the key of the table `verdict`: some traits, and what follows for the slot.
const bit<16> OLDER = TRAIT_OLDER;
const bit<16> FROM_ABOVE = TRAIT_FROM_ABOVE;
const bit<16> FRESH = TRAIT_FRESH;
const bit<16> PHASE = 0x0030;
const bit<16> WAITING = 0x0010;    // PHASE_WAITING
const bit<16> CLOSED = 0x0020;     // PHASE_CLOSED
const bit<16> IS_IN = 0x0008;      // the worker is in already
const bit<16> COMPLETES = 0x0004;  // with this packet the quorum is in
const bit<16> FLUSHES = 0x0002;    // a FLUSH, and as many are in as its sender asks for
// The sender is to be told how the slot stands; or a notice, which a lower switch passes on. Of bare packets, and of
// trimmed ones where the result has no room in them.
const bit<16> ASKS = TRAIT_BARE;

// `states`, `runs`: see control Slot. `joined` is what it computes in. `run`: the job's cell in `runs`. The packet has
// `contributors`, `flags`, `count` and `cut`; `marked`: it met a long queue; `is_stale`: it is a STALE. `above`: there is
// a switch above, where this one has the bit `seat`.
control Verdict(inout state_t state, inout state_t joined, inout bit<16> traits, inout bit<8> effects,
                inout bit<32> verdict, in slot_t slot, in slot_t run, in bitmap_t worker_bit, in bit<8> quorum,
                in bitmap_t contributors, in bit<8> flags, in bit<8> count, in bit<8> cut, in bool marked,
                in bool is_stale, in bool above, in bitmap_t seat)(
                register<state_t> states, register<state_t> runs) {
    MarkLoss(states) mark_loss;

    // The key of the verdict, and the state with this contribution in, whatever the packet is.
    @hidden action compare() {
        // A worker whose contribution was void is counted already.
        bit<8> arrivals = STATE_ARRIVED(state)
            + (bit<8>)(bit<1>)(STATE_VOIDED(state) & worker_bit == 0);
        traits = traits
            | (10w0 ++ STATE_PHASE(state)
               ++ (bit<1>)(STATE_CONTRIBUTORS(state) & worker_bit != 0)
               ++ (bit<1>)(arrivals >= quorum)
               ++ (bit<1>)(flags & FLAG_FLUSH != 0 &&
                           (bit<32>)STATE_ARRIVED(state) >= contributors)
               // A packet of two words has no room for the eight words of a whole result: its sender shall ask again.
               ++ (bit<1>)(traits & TRAIT_TRIMMED != 0 && STATE_PHASE(state) == PHASE_CLOSED &&
                           STATE_CUT(state) & CUT_RESULT == 0));
        // A result of no contributors would be refused by the hosts: where all others are void, the last one counts.
        if (arrivals >= quorum && STATE_COUNT(state) == 0) {
            traits = traits & ~TRAIT_VOID;
        }
        joined = state;
        STATE_ARRIVED(joined) = arrivals;
        // The flags of a partial result hold of the whole sum.
        STATE_FLAGS(joined) = STATE_FLAGS(joined) | (flags & FLAGS_KEPT);
        if (marked) {
            STATE_FLAGS(joined) = STATE_FLAGS(joined) | FLAG_CE;
        }
        if (traits & TRAIT_TRIMMED != 0) {
            STATE_CUT(joined) = STATE_CUT(joined) + 2;
        }
        if (traits & TRAIT_VOID != 0) {
            STATE_VOIDED(joined) = STATE_VOIDED(joined) | worker_bit;
        } else {
            STATE_VOIDED(joined) = STATE_VOIDED(joined) & ~worker_bit;
            STATE_CONTRIBUTORS(joined) = STATE_CONTRIBUTORS(joined) | worker_bit;
            STATE_COUNT(joined) = STATE_COUNT(joined) + count;
        }
    }

    // The sum is complete here: a root answers, a lower switch passes it on and waits.
    @hidden action close() {
        if (above) {
            effects = effects | (EFFECT_CLOSES | EFFECT_GOES_UP);
            state = state | ((state_t)PHASE_WAITING << STATE_PHASE_AT);
        } else {
            effects = effects | (EFFECT_CLOSES | EFFECT_ANSWERS);
            state = state | ((state_t)PHASE_CLOSED << STATE_PHASE_AT);
        }
        states.write(slot, state);
    }

    @id(ID_ACTION_FIRST)
    @brief("Open a round") @description("The slot holds this contribution.")
    action first() {
        verdict = VERDICT_FIRST;
        effects = EFFECT_FOLDS;
        state = joined;
        states.write(slot, state);
    }

    @id(ID_ACTION_ADD)
    @brief("Add") @description("The contribution is added, and more are to come.")
    action add() {
        verdict = VERDICT_ADD;
        effects = EFFECT_FOLDS;
        state = joined;
        states.write(slot, state);
    }

    @id(ID_ACTION_LAST)
    @brief("Add and close") @description("With this contribution the quorum is in.")
    action last() {
        verdict = VERDICT_LAST;
        effects = EFFECT_FOLDS;
        state = joined;
        close();
    }

    @id(ID_ACTION_DUPLICATE)
    @brief("Repeat the result") @description("The slot is closed: its result is sent to the worker again.")
    action duplicate() {
        verdict = VERDICT_DUPLICATE;
        effects = EFFECT_ANSWERS;
    }

    @id(ID_ACTION_REPEAT)
    @brief("Ignore") @description("The worker's contribution is in already.")
    action repeat() {
        verdict = VERDICT_REPEAT;
    }

    @id(ID_ACTION_FLUSH_SLOT)
    @brief("Close early") @description("A worker asks to close the slot without those who are missing.")
    action flush_slot() {
        verdict = VERDICT_FLUSH;
        // A FLUSH that says how few are enough is of a bounded loss: the sum is valid. Else the result is of no use.
        if (contributors == 0) {
            state = state | ((state_t)FLAG_INCOMPLETE << STATE_FLAGS_AT);
        } else {
            state = state | ((state_t)FLAG_MISSING << STATE_FLAGS_AT);
        }
        close();
    }

    @id(ID_ACTION_STALE)
    @brief("Tell of a newer round") @description("The packet's round is over: its sender is told the slot's.")
    action stale() {
        verdict = VERDICT_STALE;
        effects = EFFECT_TELLS;
    }

    @id(ID_ACTION_ASK)
    @brief("Send up again") @description("The partial result is sent to the switch above once more.")
    action ask() {
        verdict = VERDICT_ASK;
        effects = EFFECT_GOES_UP;
    }

    // The result of the switch above replaces what is here. Its contributors are switches: a worker is in the result if
    // it is in this switch's partial result and this switch is in the result.
    @id(ID_ACTION_DOWN)
    @brief("Take a result") @description("The result of the switch above replaces what the slot holds.")
    action down() {
        verdict = VERDICT_DOWN;
        effects = EFFECT_TAKES | EFFECT_ANSWERS;
        if (traits & TRAIT_SIX_WORDS != 0) {
            effects = EFFECT_TAKES | EFFECT_ANSWERS | EFFECT_FILLS;
        }
        if (contributors & seat == 0) {
            STATE_CONTRIBUTORS(state) = 0;
        }
        STATE_COUNT(state) = count;
        STATE_FLAGS(state) = STATE_FLAGS(state) | flags;
        STATE_CUT(state) = cut;
        STATE_PHASE(state) = PHASE_CLOSED;
        states.write(slot, state);
    }

    @id(ID_ACTION_KNOWN)
    @brief("Ignore a result") @description("The result of the switch above is here already, or too late.")
    action known() {
        verdict = VERDICT_KNOWN;
    }

    // A STALE of the switch above tells of a newer round than the one that is here, a REFUSED is about this one.
    @id(ID_ACTION_RELAY)
    @brief("Pass a notice on") @description("What the switch above says goes to the workers.")
    action relay() {
        if ((bit<1>)(traits & TRAIT_FRESH != 0) == (bit<1>)is_stale) {
            verdict = VERDICT_RELAY;
            effects = EFFECT_TELLS;
        } else {
            verdict = VERDICT_KNOWN;
        }
    }

    @id(ID_ACTION_INFORM)
    @brief("Tell the slot's state") @description("The sender of a question is told how the slot stands.")
    action inform() {
        verdict = VERDICT_INFORM;
        effects = EFFECT_TELLS;
    }

    @id(ID_ACTION_NO_VERDICT)
    @brief("Do nothing") @description("The packet is in none of the situations.")
    action no_verdict() {
        verdict = VERDICT_NONE;
    }

    @id(ID_TABLE_VERDICT)
    @brief("Verdicts")
    @description("By the situation of packet and slot: what becomes of both. The rows are the program's own.")
    @name("verdict")
    table situations {
        key = {
            traits : ternary @id(9) @name("situation");
        }
        actions = {
            first;
            add;
            last;
            duplicate;
            repeat;
            flush_slot;
            stale;
            ask;
            down;
            known;
            relay;
            inform;
            @defaultonly no_verdict;
        }
        const default_action = no_verdict();
        // The first that matches counts. What a line leaves out of its mask does not matter.
        const entries = {
            // Opens the round; one more, and with it the quorum may be in.
            FRESH &&& FROM_ABOVE | FRESH | COMPLETES | ASKS : first();
            0 &&& OLDER | FROM_ABOVE | FRESH | PHASE | IS_IN | COMPLETES | ASKS : add();
            COMPLETES &&& OLDER | FROM_ABOVE | FRESH | PHASE | IS_IN | COMPLETES | ASKS : last();
            FRESH | COMPLETES &&& FROM_ABOVE | FRESH | COMPLETES | ASKS : last();  // a job whose quorum is one
            // From above: a result of a round that is over, or that is here; why there will be no result; the result.
            OLDER | FROM_ABOVE &&& OLDER | FROM_ABOVE : known();
            FROM_ABOVE | CLOSED &&& FROM_ABOVE | PHASE : known();
            FROM_ABOVE | ASKS &&& FROM_ABOVE | ASKS : relay();
            FROM_ABOVE &&& FROM_ABOVE : down();
            // Changes nothing: a round that is over, a question.
            OLDER &&& OLDER : stale();
            ASKS &&& ASKS : inform();
            CLOSED &&& PHASE : duplicate();           // the worker's result was lost, or the worker is late
            WAITING &&& PHASE : ask();                // complete here, no result yet: a packet was lost above
            IS_IN | FLUSHES &&& IS_IN | FLUSHES : flush_slot();  // closes without the missing
            IS_IN &&& IS_IN : repeat();               // counted already
        }
    }

    @hidden action write_run() {
        runs.write(run, state);
    }

    apply {
        compare();
        situations.apply();
        if (effects & EFFECT_CLOSES != 0) {
            mark_loss.apply(state, traits, effects, slot);
        }
        if (STATE_OPENS(state) == 1 && effects & (EFFECT_CLOSES | EFFECT_TAKES) != 0) {
            write_run();
        }
    }
}

#endif
