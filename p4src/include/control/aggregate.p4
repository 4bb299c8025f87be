// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The payload of the slots, and what an op does to it. Where a packet goes out, the slot's payload is put into its
// words.

#ifndef SUMWIRE_AGGREGATE_P4_
#define SUMWIRE_AGGREGATE_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "max32.p4"
#include "min32.p4"
#include "sign.p4"
#include "sum32.p4"
#include "thc.p4"
#include "vote.p4"

const word_t CUT_FILL =
    1024w0xAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA;

control Aggregate(inout headers_t hdr, inout metadata_t meta) {
    register<word_t>(SLOTS_TOTAL) word0;
    register<word_t>(SLOTS_TOTAL) word1;
    register<word_t>(SLOTS_TOTAL) word2;
    register<word_t>(SLOTS_TOTAL) word3;
    register<word_t>(SLOTS_TOTAL) word4;
    register<word_t>(SLOTS_TOTAL) word5;
    register<word_t>(SLOTS_TOTAL) word6;
    register<word_t>(SLOTS_TOTAL) word7;

    ThcFold() thc;
    Max32Fold() max32;
    Sum32Fold() sum32;
    SignFold() sign;
    VoteFold() vote;
    VoteClose() vote_close;
    Min32Fold() min32;

    payload_t sum;
    payload_t stored;

    action read_stored() {
        word0.read(stored.w0, meta.admission.slot);
        word1.read(stored.w1, meta.admission.slot);
        word2.read(stored.w2, meta.admission.slot);
        word3.read(stored.w3, meta.admission.slot);
        word4.read(stored.w4, meta.admission.slot);
        word5.read(stored.w5, meta.admission.slot);
        word6.read(stored.w6, meta.admission.slot);
        word7.read(stored.w7, meta.admission.slot);
    }

    action write_sum() {
        word0.write(meta.admission.slot, sum.w0);
        word1.write(meta.admission.slot, sum.w1);
        word2.write(meta.admission.slot, sum.w2);
        word3.write(meta.admission.slot, sum.w3);
        word4.write(meta.admission.slot, sum.w4);
        word5.write(meta.admission.slot, sum.w5);
        word6.write(meta.admission.slot, sum.w6);
        word7.write(meta.admission.slot, sum.w7);
    }

    // Words that the packet does not have hold anything: its op ignores them.
    action take_words() {
        sum.w0 = hdr.word0.bits;
        sum.w1 = hdr.word1.bits;
        sum.w2 = hdr.word2.bits;
        sum.w3 = hdr.word3.bits;
        sum.w4 = hdr.word4.bits;
        sum.w5 = hdr.word5.bits;
        sum.w6 = hdr.word6.bits;
        sum.w7 = hdr.word7.bits;
    }

    // setValid() clears a header, so the words are filled after it.
    action give_eight_words() {
        hdr.word1.setValid();
        hdr.word2.setValid();
        hdr.word3.setValid();
        hdr.word4.setValid();
        hdr.word5.setValid();
        hdr.word6.setValid();
        hdr.word7.setValid();
        hdr.word0.bits = sum.w0;
        hdr.word1.bits = sum.w1;
        hdr.word2.bits = sum.w2;
        hdr.word3.bits = sum.w3;
        hdr.word4.bits = sum.w4;
        hdr.word5.bits = sum.w5;
        hdr.word6.bits = sum.w6;
        hdr.word7.bits = sum.w7;
        hdr.sumwire.words = SLOT_WORDS;
    }

    action give_six_words() {
        hdr.word1.setValid();
        hdr.word2.setValid();
        hdr.word3.setValid();
        hdr.word4.setValid();
        hdr.word5.setValid();
        hdr.word0.bits = sum.w1;
        hdr.word1.bits = sum.w2;
        hdr.word2.bits = sum.w3;
        hdr.word3.bits = sum.w5;
        hdr.word4.bits = sum.w6;
        hdr.word5.bits = sum.w7;
        hdr.sumwire.words = VOTE_WORDS_PARTIAL;
    }

    action give_two_words() {
        hdr.word0.bits = sum.w0;
        hdr.word1.setValid();
        hdr.word1.bits = sum.w1;
        hdr.word2.setInvalid();
        hdr.word3.setInvalid();
        hdr.word4.setInvalid();
        hdr.word5.setInvalid();
        hdr.word6.setInvalid();
        hdr.word7.setInvalid();
        hdr.sumwire.words = VOTE_WORDS_DOWN;
    }

    // A packet of two words can grow to six (bmv2's 512 bytes). The receiver makes up the two low planes.
    action give_top_words() {
        hdr.word1.setValid();
        hdr.word2.setValid();
        hdr.word3.setValid();
        hdr.word4.setValid();
        hdr.word5.setValid();
        hdr.word6.setInvalid();
        hdr.word7.setInvalid();
        hdr.word0.bits = sum.w0;
        hdr.word1.bits = sum.w1;
        hdr.word2.bits = sum.w2;
        hdr.word3.bits = sum.w3;
        hdr.word4.bits = sum.w4;
        hdr.word5.bits = sum.w5;
        hdr.sumwire.words = THC_WORDS_CUT;
    }

    // The low planes that a contribution lacks: half of the values get 2, the other half 1, the integers nearest to the
    // middle of 0 to 3.
    action fill_indices() {
        hdr.word2.setValid();
        hdr.word3.setValid();
        hdr.word2.bits = CUT_FILL;
        hdr.word3.bits = ~CUT_FILL;
    }

    // Of a void contribution: index 0 stands for the value 0, so the sum does not change.
    action clear_indices() {
        hdr.word0.bits = 0;
        hdr.word1.bits = 0;
        hdr.word2.bits = 0;
        hdr.word3.bits = 0;
    }

    action fill_result() {
        sum.w6 = CUT_FILL;
        sum.w7 = ~CUT_FILL;
    }

    action give_one_word() {
        hdr.word0.bits = sum.w0;
    }

    apply {
        // Of a fresh slot these are an earlier round's, and the ops ignore them.
        read_stored();
        if (meta.verdict == VERDICT_DOWN) {
            take_words();
        } else if (meta.folds == 0) {
            sum = stored;
        } else {
            take_words();
            if (hdr.sumwire.op == OP_THC) {
                if (meta.trimmed | meta.voids == 1) {
                    if (meta.trimmed == 1) {
                        fill_indices();
                    } else {
                        clear_indices();
                    }
                }
                thc.apply(hdr, meta, sum, stored);
            } else if (hdr.sumwire.op == OP_MAX32) {
                max32.apply(meta, sum, stored);
            } else if (hdr.sumwire.op == OP_SUM32) {
                sum32.apply(meta, sum, stored);
            } else if (hdr.sumwire.op == OP_SIGN) {
                sign.apply(hdr, meta, sum, stored);
            } else if (hdr.sumwire.op == OP_VOTE) {
                vote.apply(hdr, meta, sum, stored);
            } else {
                min32.apply(meta, sum, stored);
            }
        }
        // When the root's slot closes, its counters become the vote.
        if (hdr.sumwire.op == OP_VOTE && meta.answers == 1 && meta.closes == 1) {
            vote_close.apply(meta, sum);
        }
        if (meta.fills == 1) {
            fill_result();
        }
        if (meta.stores == 1) {
            write_sum();
        }
        if (meta.answers == 0 && meta.goes_up == 0) {
            // The packet ends here.
        } else if (hdr.sumwire.words == 1) {
            give_one_word();
        } else if (hdr.sumwire.op == OP_VOTE && meta.goes_up == 1) {
            give_six_words();
        } else if (hdr.sumwire.op == OP_VOTE) {
            give_two_words();
        } else if (meta.six_words == 1) {
            give_top_words();
        } else {
            give_eight_words();
        }
    }
}

#endif
