// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The payload of the slots, and what an op does to it. Leaves the slot's payload in the packet's words where
// the verdict answers with a RESULT. word0 is the first on the wire: the most significant plane.

#ifndef SUMWIRE_AGGREGATE_P4_
#define SUMWIRE_AGGREGATE_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "max32.p4"
#include "thc.p4"

control Aggregate(inout headers_t hdr, in metadata_t meta) {
    register<word_t>(SLOTS_TOTAL) word0;
    register<word_t>(SLOTS_TOTAL) word1;
    register<word_t>(SLOTS_TOTAL) word2;
    register<word_t>(SLOTS_TOTAL) word3;
    register<word_t>(SLOTS_TOTAL) word4;
    register<word_t>(SLOTS_TOTAL) word5;
    register<word_t>(SLOTS_TOTAL) word6;
    register<word_t>(SLOTS_TOTAL) word7;

    ThcLookup() thc_lookup;
    RippleAdd() ripple_add;
    Max32() max32;

    planes_t sum;
    planes_t stored;
    word_t maximum;

    action read_stored() {
        word0.read(stored.p7, meta.admission.slot);
        word1.read(stored.p6, meta.admission.slot);
        word2.read(stored.p5, meta.admission.slot);
        word3.read(stored.p4, meta.admission.slot);
        word4.read(stored.p3, meta.admission.slot);
        word5.read(stored.p2, meta.admission.slot);
        word6.read(stored.p1, meta.admission.slot);
        word7.read(stored.p0, meta.admission.slot);
    }

    action write_sum() {
        word0.write(meta.admission.slot, sum.p7);
        word1.write(meta.admission.slot, sum.p6);
        word2.write(meta.admission.slot, sum.p5);
        word3.write(meta.admission.slot, sum.p4);
        word4.write(meta.admission.slot, sum.p3);
        word5.write(meta.admission.slot, sum.p2);
        word6.write(meta.admission.slot, sum.p1);
        word7.write(meta.admission.slot, sum.p0);
    }

    // setValid() clears a header, so the words are filled after it.
    action answer_sum() {
        hdr.word4.setValid();
        hdr.word5.setValid();
        hdr.word6.setValid();
        hdr.word7.setValid();
        hdr.word0.bits = sum.p7;
        hdr.word1.bits = sum.p6;
        hdr.word2.bits = sum.p5;
        hdr.word3.bits = sum.p4;
        hdr.word4.bits = sum.p3;
        hdr.word5.bits = sum.p2;
        hdr.word6.bits = sum.p1;
        hdr.word7.bits = sum.p0;
        hdr.sumwire.words = SLOT_WORDS;
    }

    apply {
        if (hdr.sumwire.op == OP_THC) {
            if (meta.folds == 1) {
                thc_lookup.apply(hdr, sum);
                if (meta.state.fresh == 0) {
                    read_stored();
                    ripple_add.apply(sum, stored);
                }
                write_sum();
            } else {
                read_stored();
                sum = stored;
            }
            if (meta.answers == 1) {
                answer_sum();
            }
        } else {
            maximum = hdr.word0.bits;
            if (meta.state.fresh == 0) {
                word0.read(maximum, meta.admission.slot);
            }
            if (meta.folds == 1) {
                max32.apply(maximum, hdr.word0.bits);
                word0.write(meta.admission.slot, maximum);
            }
            hdr.word0.bits = maximum;
        }
    }
}

#endif
