// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The slot protocol (docs/protocol.md): reads a slot's state, comes to a verdict, writes the new state, and has the
// payload folded in.
// Only packets change a slot. Owner and round show that what an earlier job or round has left is void.

#ifndef SUMWIRE_SLOT_P4_
#define SUMWIRE_SLOT_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "../state.p4"
#include "aggregate.p4"
#include "join.p4"
#include "opening.p4"
#include "verdict.p4"

// The cell of the job in `runs`: its slot base.
#define RUN (meta.admission.slot - (slot_t)hdr.sumwire.slot)

// It hands on most headers and metadata, and so takes all.
control Slot(inout headers_t hdr, inout metadata_t meta) {
    register<state_t>(SLOTS_TOTAL) states;
    // Of the job's latest run, at its slot base: the state of the slot with which the run was opened. A switch that has
    // forgotten its slots has forgotten this as well, and takes nothing more of the run.
    register<state_t>(SLOTS_TOTAL) runs;

    Opening(runs) opening;
    Join(states) join;
    Verdict(states, runs) verdict;
    Aggregate() aggregate;

    @hidden action read_state() {
        states.read(meta.state, meta.admission.slot);
    }

    // An element of SUM32 left its range, which is known only now.
    @hidden action mark_overflow() {
        meta.state = meta.state | ((state_t)FLAG_OVERFLOW << STATE_FLAGS_AT);
        states.write(meta.admission.slot, meta.state);
    }

    apply {
        read_state();
        opening.apply(meta.state, meta.joined, meta.scratch.value, meta.traits, meta.reject, meta.admission.opening,
                      RUN, hdr.sumwire.round, hdr.sumwire.token, hdr.sumwire.bucket, hdr.word0.bits[1023:992],
                      hdr.sumwire.op == OP_NONE, meta.admission.sprays, hdr.above.isValid());
        // Nearly every packet is a whole contribution without flags to an open slot. The table would be a detour.
        if (IS_USUAL(meta.state, meta.traits, meta.admission.worker_bit, hdr.sumwire.flags, hdr.ipv4.ecn == ECN_CE)) {
            join.apply(meta.state, meta.traits, meta.effects, meta.verdict, meta.admission.slot,
                       meta.admission.worker_bit, meta.admission.quorum, hdr.sumwire.count, hdr.above.isValid());
        } else if (meta.reject == REJECT_NONE) {
            verdict.apply(meta.state, meta.joined, meta.traits, meta.effects, meta.verdict, meta.admission.slot, RUN,
                          meta.admission.worker_bit, meta.admission.quorum, hdr.sumwire.contributors, hdr.sumwire.flags,
                          hdr.sumwire.count, hdr.sumwire.cut, hdr.ipv4.ecn == ECN_CE, hdr.sumwire.kind == KIND_STALE,
                          hdr.above.isValid(), hdr.above.worker_bit);
        }
        if (meta.effects & ~EFFECT_TELLS != 0) {
            aggregate.apply(hdr, meta.traits, meta.effects, meta.admission.slot, STATE_COUNT(meta.state), meta.sum,
                            meta.scratch);
            if (meta.effects & EFFECT_OVERFLOWS != 0) {
                mark_overflow();
            }
        }
    }
}

#undef RUN

#endif
