// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The verdict: what a slot makes of a packet that is not a usual contribution (docs/protocol.md#verdicts).

#ifndef SUMWIRE_VERDICT_P4_
#define SUMWIRE_VERDICT_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
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

control Verdict(inout headers_t hdr, inout metadata_t meta)(register<state_t> states, register<state_t> runs) {
    MarkLoss(states) mark_loss;

    // The key of the verdict, and the state with this contribution in, whatever the packet is.
    @hidden action compare() {
        // A worker whose contribution was void is counted already.
        bit<8> arrivals = STATE_ARRIVED(meta.state)
            + (bit<8>)(bit<1>)(STATE_VOIDED(meta.state) & meta.admission.worker_bit == 0);
        meta.traits = meta.traits
            | (10w0 ++ STATE_PHASE(meta.state)
               ++ (bit<1>)(STATE_CONTRIBUTORS(meta.state) & meta.admission.worker_bit != 0)
               ++ (bit<1>)(arrivals >= meta.admission.quorum)
               ++ (bit<1>)(hdr.sumwire.flags & FLAG_FLUSH != 0 &&
                           (bit<32>)STATE_ARRIVED(meta.state) >= hdr.sumwire.contributors)
               // A packet of two words has no room for the eight words of a whole result: its sender shall ask again.
               ++ (bit<1>)(meta.traits & TRAIT_TRIMMED != 0 && STATE_PHASE(meta.state) == PHASE_CLOSED &&
                           STATE_CUT(meta.state) & CUT_RESULT == 0));
        // A result of no contributors would be refused by the hosts: where all others are void, the last one counts.
        if (arrivals >= meta.admission.quorum && STATE_COUNT(meta.state) == 0) {
            meta.traits = meta.traits & ~TRAIT_VOID;
        }
        meta.joined = meta.state;
        STATE_ARRIVED(meta.joined) = arrivals;
        // The flags of a partial result hold of the whole sum.
        STATE_FLAGS(meta.joined) = STATE_FLAGS(meta.joined) | (hdr.sumwire.flags & FLAGS_KEPT);
        if (hdr.ipv4.ecn == ECN_CE) {
            STATE_FLAGS(meta.joined) = STATE_FLAGS(meta.joined) | FLAG_CE;
        }
        if (meta.traits & TRAIT_TRIMMED != 0) {
            STATE_CUT(meta.joined) = STATE_CUT(meta.joined) + 2;
        }
        if (meta.traits & TRAIT_VOID != 0) {
            STATE_VOIDED(meta.joined) = STATE_VOIDED(meta.joined) | meta.admission.worker_bit;
        } else {
            STATE_VOIDED(meta.joined) = STATE_VOIDED(meta.joined) & ~meta.admission.worker_bit;
            STATE_CONTRIBUTORS(meta.joined) = STATE_CONTRIBUTORS(meta.joined) | meta.admission.worker_bit;
            STATE_COUNT(meta.joined) = STATE_COUNT(meta.joined) + hdr.sumwire.count;
        }
    }

    // The sum is complete here: a root answers, a lower switch passes it on and waits.
    @hidden action close() {
        if (hdr.above.isValid()) {
            meta.effects = meta.effects | (EFFECT_CLOSES | EFFECT_GOES_UP);
            meta.state = meta.state | ((state_t)PHASE_WAITING << STATE_PHASE_AT);
        } else {
            meta.effects = meta.effects | (EFFECT_CLOSES | EFFECT_ANSWERS);
            meta.state = meta.state | ((state_t)PHASE_CLOSED << STATE_PHASE_AT);
        }
        states.write(meta.admission.slot, meta.state);
    }

    @id(ID_ACTION_FIRST)
    @brief("Open a round") @description("The slot holds this contribution.")
    action first() {
        meta.verdict = VERDICT_FIRST;
        meta.effects = EFFECT_FOLDS;
        meta.state = meta.joined;
        states.write(meta.admission.slot, meta.state);
    }

    @id(ID_ACTION_ADD)
    @brief("Add") @description("The contribution is added, and more are to come.")
    action add() {
        meta.verdict = VERDICT_ADD;
        meta.effects = EFFECT_FOLDS;
        meta.state = meta.joined;
        states.write(meta.admission.slot, meta.state);
    }

    @id(ID_ACTION_LAST)
    @brief("Add and close") @description("With this contribution the quorum is in.")
    action last() {
        meta.verdict = VERDICT_LAST;
        meta.effects = EFFECT_FOLDS;
        meta.state = meta.joined;
        close();
    }

    @id(ID_ACTION_DUPLICATE)
    @brief("Repeat the result") @description("The slot is closed: its result is sent to the worker again.")
    action duplicate() {
        meta.verdict = VERDICT_DUPLICATE;
        meta.effects = EFFECT_ANSWERS;
    }

    @id(ID_ACTION_REPEAT)
    @brief("Ignore") @description("The worker's contribution is in already.")
    action repeat() {
        meta.verdict = VERDICT_REPEAT;
    }

    @id(ID_ACTION_FLUSH_SLOT)
    @brief("Close early") @description("A worker asks to close the slot without those who are missing.")
    action flush_slot() {
        meta.verdict = VERDICT_FLUSH;
        // A FLUSH that says how few are enough is of a bounded loss: the sum is valid. Else the result is of no use.
        if (hdr.sumwire.contributors == 0) {
            meta.state = meta.state | ((state_t)FLAG_INCOMPLETE << STATE_FLAGS_AT);
        } else {
            meta.state = meta.state | ((state_t)FLAG_MISSING << STATE_FLAGS_AT);
        }
        close();
    }

    @id(ID_ACTION_STALE)
    @brief("Tell of a newer round") @description("The packet's round is over: its sender is told the slot's.")
    action stale() {
        meta.verdict = VERDICT_STALE;
        meta.effects = EFFECT_TELLS;
    }

    @id(ID_ACTION_ASK)
    @brief("Send up again") @description("The partial result is sent to the switch above once more.")
    action ask() {
        meta.verdict = VERDICT_ASK;
        meta.effects = EFFECT_GOES_UP;
    }

    // The result of the switch above replaces what is here. Its contributors are switches: a worker is in the result if
    // it is in this switch's partial result and this switch is in the result.
    @id(ID_ACTION_DOWN)
    @brief("Take a result") @description("The result of the switch above replaces what the slot holds.")
    action down() {
        meta.verdict = VERDICT_DOWN;
        meta.effects = EFFECT_TAKES | EFFECT_ANSWERS;
        if (meta.traits & TRAIT_SIX_WORDS != 0) {
            meta.effects = EFFECT_TAKES | EFFECT_ANSWERS | EFFECT_FILLS;
        }
        if (hdr.sumwire.contributors & hdr.above.worker_bit == 0) {
            STATE_CONTRIBUTORS(meta.state) = 0;
        }
        STATE_COUNT(meta.state) = hdr.sumwire.count;
        STATE_FLAGS(meta.state) = STATE_FLAGS(meta.state) | hdr.sumwire.flags;
        STATE_CUT(meta.state) = hdr.sumwire.cut;
        STATE_PHASE(meta.state) = PHASE_CLOSED;
        states.write(meta.admission.slot, meta.state);
    }

    @id(ID_ACTION_KNOWN)
    @brief("Ignore a result") @description("The result of the switch above is here already, or too late.")
    action known() {
        meta.verdict = VERDICT_KNOWN;
    }

    // A STALE of the switch above tells of a newer round than the one that is here, a REFUSED is about this one.
    @id(ID_ACTION_RELAY)
    @brief("Pass a notice on") @description("What the switch above says goes to the workers.")
    action relay() {
        if ((bit<1>)(meta.traits & TRAIT_FRESH != 0) == (bit<1>)(hdr.sumwire.kind == KIND_STALE)) {
            meta.verdict = VERDICT_RELAY;
            meta.effects = EFFECT_TELLS;
        } else {
            meta.verdict = VERDICT_KNOWN;
        }
    }

    @id(ID_ACTION_INFORM)
    @brief("Tell the slot's state") @description("The sender of a question is told how the slot stands.")
    action inform() {
        meta.verdict = VERDICT_INFORM;
        meta.effects = EFFECT_TELLS;
    }

    @id(ID_ACTION_NO_VERDICT)
    @brief("Do nothing") @description("The packet is in none of the situations.")
    action no_verdict() {
        meta.verdict = VERDICT_NONE;
    }

    @id(ID_TABLE_VERDICT)
    @brief("Verdicts")
    @description("By the situation of packet and slot: what becomes of both. The rows are the program's own.")
    table verdict {
        key = {
            meta.traits : ternary @id(9) @name("situation");
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
        runs.write(meta.admission.slot - (slot_t)hdr.sumwire.slot, meta.state);
    }

    apply {
        compare();
        verdict.apply();
        if (meta.effects & EFFECT_CLOSES != 0) {
            mark_loss.apply(meta);
        }
        if (STATE_OPENS(meta.state) == 1 && meta.effects & (EFFECT_CLOSES | EFFECT_TAKES) != 0) {
            write_run();
        }
    }
}

#endif
