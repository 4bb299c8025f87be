// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The slot protocol (docs/protocol.md): reads a slot's state, comes to a verdict, has the payload folded in
// (aggregate.p4, which may add a flag) and writes the new state.
// Only packets change a slot. Owner and round show that what an earlier job or round has left is void.

#ifndef SUMWIRE_SLOT_P4_
#define SUMWIRE_SLOT_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
#include "aggregate.p4"

// Flags of a contribution that become flags of the result.
const bit<8> FLAGS_KEPT = FLAG_INCOMPLETE | FLAG_OVERFLOW | FLAG_TRIMMED | FLAG_CE | FLAG_MISSING;

control Slot(inout headers_t hdr, inout metadata_t meta) {
    Aggregate() aggregate;

    register<bit<32>>(SLOTS_TOTAL) owner;
    register<bit<32>>(SLOTS_TOTAL) round;
    register<bitmap_t>(SLOTS_TOTAL) contributors;
    register<bit<8>>(SLOTS_TOTAL) count;
    register<bit<8>>(SLOTS_TOTAL) arrived;
    register<bitmap_t>(SLOTS_TOTAL) voided;
    register<bit<8>>(SLOTS_TOTAL) flags;
    register<bit<24>>(SLOTS_TOTAL) call;
    register<bit<8>>(SLOTS_TOTAL) cut;
    register<bit<2>>(SLOTS_TOTAL) phase;

    bit<32> slot_owner;
    bit<32> ahead;       // the packet's round - the slot's
    bit<1> older;        // the packet is of a round before the slot's
    bit<1> contributed;  // the worker is in already
    bit<1> flush;        // a FLUSH, and as many are in as its sender asks for
    bit<1> asks;         // the sender is to be told how the slot stands; or a notice, which a lower switch passes on
    bit<1> completes;    // with this packet the quorum is in
    bit<8> arrivals;     // `arrived` with this packet; a worker whose contribution was void is counted already

    action read_state() {
        owner.read(slot_owner, meta.admission.slot);
        round.read(meta.state.round, meta.admission.slot);
        contributors.read(meta.state.contributors, meta.admission.slot);
        count.read(meta.state.count, meta.admission.slot);
        arrived.read(meta.state.arrived, meta.admission.slot);
        voided.read(meta.state.voided, meta.admission.slot);
        flags.read(meta.state.flags, meta.admission.slot);
        call.read(meta.state.call, meta.admission.slot);
        cut.read(meta.state.cut, meta.admission.slot);
        phase.read(meta.state.phase, meta.admission.slot);
        // A HELLO asks for the round that the slot has.
        ahead = hdr.sumwire.op == OP_NONE ? 0 : hdr.sumwire.round - meta.state.round;
        older = 0;
    }

    action forget_state() {
        meta.state.fresh = 1;
        meta.state.round = hdr.sumwire.round;
        meta.state.contributors = 0;
        meta.state.count = 0;
        meta.state.arrived = 0;
        meta.state.voided = 0;
        meta.state.flags = 0;
        meta.state.call = hdr.sumwire.op ++ hdr.sumwire.bucket;
        meta.state.cut = 0;
        meta.state.phase = PHASE_OPEN;
    }

    action write_state() {
        owner.write(meta.admission.slot, meta.admission.generation);
        round.write(meta.admission.slot, meta.state.round);
        contributors.write(meta.admission.slot, meta.state.contributors);
        count.write(meta.admission.slot, meta.state.count);
        arrived.write(meta.admission.slot, meta.state.arrived);
        voided.write(meta.admission.slot, meta.state.voided);
        flags.write(meta.admission.slot, meta.state.flags);
        call.write(meta.admission.slot, meta.state.call);
        cut.write(meta.admission.slot, meta.state.cut);
        phase.write(meta.admission.slot, meta.state.phase);
    }

    action add_contributor() {
        bitmap_t counts = meta.voids == 1 ? 0 : meta.admission.worker_bit;
        meta.state.contributors = meta.state.contributors | counts;
        meta.state.voided = (meta.state.voided | meta.admission.worker_bit) & ~counts;
        meta.state.count = meta.state.count + (meta.voids == 1 ? 0 : hdr.sumwire.count);
        meta.state.arrived = arrivals;
        // The flags of a partial result hold of the whole sum.
        meta.state.flags = meta.state.flags | (hdr.sumwire.flags & FLAGS_KEPT)
            | (hdr.ipv4.ecn == ECN_CE ? FLAG_CE : 0);
        meta.state.cut = meta.state.cut + ((bit<8>)meta.trimmed << 1);
        meta.folds = 1;
        meta.stores = 1;
    }

    // Bits for the verdict's key. In an action: as statements of a control each would become a branch and two tables.
    action compare() {
        contributed = (bit<1>)(meta.state.contributors & meta.admission.worker_bit != 0);
        arrivals = meta.state.arrived + (meta.state.voided & meta.admission.worker_bit == 0 ? 8w1 : 0);
        completes = (bit<1>)(arrivals >= meta.admission.quorum);
        // A result of no contributors would be refused by the hosts: where all others are void, the last one counts.
        meta.voids = meta.voids & ~(completes & (bit<1>)(meta.state.count == 0));
        flush = (bit<1>)(hdr.sumwire.flags & FLAG_FLUSH != 0 &&
                         (bit<32>)meta.state.arrived >= hdr.sumwire.contributors);
        // A packet of two words has no room for the eight words of a whole result, so its sender is told to ask again.
        asks = meta.bare | (meta.trimmed & meta.state.phase[1:1] & ~meta.state.cut[7:7]);
    }

    // The sum is complete here: a root answers, a lower switch passes it on and waits.
    action close() {
        meta.state.phase = meta.uplink.phase;
        meta.answers = meta.uplink.phase[1:1];
        meta.goes_up = meta.uplink.phase[0:0];
        meta.state.flags = meta.state.flags | (meta.state.voided == 0 ? 0 : FLAG_MISSING);
        meta.state.cut = meta.state.cut | ((bit<8>)meta.cuts << 7);
        meta.fills = meta.cuts;
        meta.six_words = meta.six_words | meta.cuts;
        meta.closes = 1;
        meta.stores = 1;
    }

    @id(ID_ACTION_FIRST)
    action first() {
        meta.verdict = VERDICT_FIRST;
        add_contributor();
    }

    @id(ID_ACTION_ADD)
    action add() {
        meta.verdict = VERDICT_ADD;
        add_contributor();
    }

    @id(ID_ACTION_LAST)
    action last() {
        meta.verdict = VERDICT_LAST;
        add_contributor();
        close();
    }

    @id(ID_ACTION_DUPLICATE)
    action duplicate() {
        meta.verdict = VERDICT_DUPLICATE;
        meta.answers = 1;
    }

    @id(ID_ACTION_REPEAT)
    action repeat() {
        meta.verdict = VERDICT_REPEAT;
    }

    @id(ID_ACTION_FLUSH_SLOT)
    action flush_slot() {
        meta.verdict = VERDICT_FLUSH;
        // A FLUSH that says how few are enough is of a bounded loss: the sum is valid. Else the result is of no use.
        meta.state.flags = meta.state.flags | (hdr.sumwire.contributors == 0 ? FLAG_INCOMPLETE : FLAG_MISSING);
        close();
    }

    @id(ID_ACTION_STALE)
    action stale() {
        meta.verdict = VERDICT_STALE;
    }

    @id(ID_ACTION_ASK)
    action ask() {
        meta.verdict = VERDICT_ASK;
        meta.goes_up = 1;
    }

    // The result of the switch above replaces what is here. Its contributors are switches: a worker is in the result if
    // it is in this switch's partial result and this switch is in the result.
    @id(ID_ACTION_DOWN)
    action down() {
        meta.verdict = VERDICT_DOWN;
        meta.state.contributors = hdr.sumwire.contributors & meta.uplink.worker_bit == 0 ? 0 : meta.state.contributors;
        meta.state.count = hdr.sumwire.count;
        meta.state.flags = meta.state.flags | hdr.sumwire.flags;
        meta.state.cut = hdr.sumwire.cut;
        meta.state.phase = PHASE_CLOSED;
        meta.fills = meta.six_words;
        meta.answers = 1;
        meta.stores = 1;
    }

    @id(ID_ACTION_KNOWN)
    action known() {
        meta.verdict = VERDICT_KNOWN;
    }

    // A STALE of the switch above tells of a newer round than the one that is here, a REFUSED is about this one.
    @id(ID_ACTION_RELAY)
    action relay() {
        meta.verdict = meta.state.fresh == (bit<1>)(hdr.sumwire.kind == KIND_STALE) ? VERDICT_RELAY : VERDICT_KNOWN;
    }

    @id(ID_ACTION_INFORM)
    action inform() {
        meta.verdict = VERDICT_INFORM;
    }

    @id(ID_ACTION_NO_VERDICT)
    action no_verdict() {
        meta.verdict = VERDICT_NONE;
    }

    @id(ID_TABLE_VERDICT)
    table verdict {
        key = {
            older : ternary @id(1);
            meta.from_above : ternary @id(7) @name("from_above");
            meta.state.fresh : ternary @id(2) @name("fresh");
            meta.state.phase : ternary @id(3) @name("phase");
            contributed : ternary @id(4);
            completes : ternary @id(5);
            flush : ternary @id(6);
            asks : ternary @id(8);
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
        const entries = {
            (1, 1, _, _, _, _, _, _) : known();                 // a result of a round that is over
            (_, 1, _, PHASE_CLOSED, _, _, _, _) : known();      // the result is here
            (_, 1, _, _, _, _, _, 1) : relay();                 // why there will be no result
            (_, 1, _, _, _, _, _, _) : down();                  // the result
            (1, 0, _, _, _, _, _, _) : stale();                 // of a round that is over
            (0, 0, _, _, _, _, _, 1) : inform();                // changes nothing
            (0, 0, 1, _, _, 1, _, 0) : last();                  // a job whose quorum is one
            (0, 0, 1, _, _, 0, _, 0) : first();                 // opens the round
            (0, 0, 0, PHASE_CLOSED, _, _, _, 0) : duplicate();  // the worker's result was lost, or the worker is late
            (0, 0, 0, PHASE_WAITING, _, _, _, 0) : ask();       // complete here, no result yet: a packet was lost above
            (0, 0, 0, PHASE_OPEN, 1, _, 1, 0) : flush_slot();   // closes without the missing
            (0, 0, 0, PHASE_OPEN, 1, _, 0, 0) : repeat();       // counted already
            (0, 0, 0, PHASE_OPEN, 0, 1, _, 0) : last();         // reaches the quorum
            (0, 0, 0, PHASE_OPEN, 0, 0, _, 0) : add();
        }
    }

    apply {
        read_state();
        // Serial-number arithmetic (RFC 1982): newer by less than half the circle.
        if (slot_owner != meta.admission.generation || (ahead != 0 && ahead < 0x80000000)) {
            forget_state();
        } else if (ahead != 0) {
            older = 1;
        } else if (meta.state.call != hdr.sumwire.op ++ hdr.sumwire.bucket && meta.any_call == 0) {
            meta.reject = REJECT_CALL;
        }
        if (meta.reject == REJECT_NONE) {
            compare();
            verdict.apply();
            if (meta.stores == 1 || meta.answers == 1 || meta.goes_up == 1) {
                aggregate.apply(hdr, meta);
            }
            if (meta.stores == 1) {
                write_state();
            }
        }
    }
}

#endif
