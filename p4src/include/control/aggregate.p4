// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The payload of the slots, and what an op does to it. Only words that count are read and written. Where a packet goes
// out, the header's words hold the slot's payload in the end.

#ifndef SUMWIRE_AGGREGATE_P4_
#define SUMWIRE_AGGREGATE_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "carry.p4"
#include "elementwise.p4"
#include "jumbo.p4"
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

    ThcLookup() thc_lookup;
    Elementwise() elementwise;
    Sum32Fold() sum32;
    SignFold() sign;
    VoteCounters() vote_counters;
    VoteAdd() vote_add;
    VoteClose() vote_close;
    Jumbo() jumbo;

    word_t carry;  // or SUM32's overflow, or SIGN's random bits

    @hidden action read_one() {
        word0.read(WORD0, meta.admission.slot);
    }

    // setValid() clears a header, so the words are filled after it.
    @hidden action read_words() {
        hdr.word1.setValid();
        hdr.pair2.setValid();
        hdr.pair4.setValid();
        hdr.pair6.setValid();
        word0.read(WORD0, meta.admission.slot);
        word1.read(WORD1, meta.admission.slot);
        word2.read(WORD2, meta.admission.slot);
        word3.read(WORD3, meta.admission.slot);
        word4.read(WORD4, meta.admission.slot);
        word5.read(WORD5, meta.admission.slot);
        word6.read(WORD6, meta.admission.slot);
        word7.read(WORD7, meta.admission.slot);
    }

    @hidden action write_one() {
        word0.write(meta.admission.slot, WORD0);
    }

    // Words that the packet does not have hold anything: its op ignores them.
    @hidden action write_words() {
        word0.write(meta.admission.slot, WORD0);
        word1.write(meta.admission.slot, WORD1);
        word2.write(meta.admission.slot, WORD2);
        word3.write(meta.admission.slot, WORD3);
        word4.write(meta.admission.slot, WORD4);
        word5.write(meta.admission.slot, WORD5);
        word6.write(meta.admission.slot, WORD6);
        word7.write(meta.admission.slot, WORD7);
    }

    @hidden action write_sum() {
        word0.write(meta.admission.slot, meta.sum.w0);
        word1.write(meta.admission.slot, meta.sum.w1);
        word2.write(meta.admission.slot, meta.sum.w2);
        word3.write(meta.admission.slot, meta.sum.w3);
        word4.write(meta.admission.slot, meta.sum.w4);
        word5.write(meta.admission.slot, meta.sum.w5);
        word6.write(meta.admission.slot, meta.sum.w6);
        word7.write(meta.admission.slot, meta.sum.w7);
    }

    // The packet's words, so that the header's can hold the slot's.
    @hidden action take_words() {
        meta.sum.w0 = WORD0;
        meta.sum.w1 = WORD1;
        meta.sum.w2 = WORD2;
        meta.sum.w3 = WORD3;
        meta.sum.w4 = WORD4;
        meta.sum.w5 = WORD5;
        meta.sum.w6 = WORD6;
        meta.sum.w7 = WORD7;
    }

    // The slot's payload + meta.sum, 1024 values of 8 bits at once.
    @hidden action add_planes() {
        read_words();
        ADD_PLANES(WORD, meta.sum.w, carry)
        write_words();
    }

    // The low planes that a contribution lacks: half of the values get 2, the other half 1, the integers nearest to the
    // middle of 0 to 3.
    @hidden action fill_indices() {
        hdr.pair2.setValid();
        WORD2 = CUT_FILL;
        WORD3 = ~CUT_FILL;
    }

    // A result of six words: the receiver makes up the two low planes, and the slot has them made up, too. A packet of
    // two words cannot grow to more (bmv2's 512 bytes).
    @hidden action give_top_words() {
        hdr.pair6.setInvalid();
        hdr.sumwire.words = THC_WORDS_CUT;
    }

    @hidden action fill_result() {
        word6.write(meta.admission.slot, CUT_FILL);
        word7.write(meta.admission.slot, ~CUT_FILL);
    }

    @hidden action give_all_words() {
        hdr.sumwire.words = SLOT_WORDS;
    }

    // The vote replaces the counters.
    @hidden action write_vote() {
        word0.write(meta.admission.slot, WORD0);
        word1.write(meta.admission.slot, WORD1);
    }

    @hidden action give_vote() {
        hdr.pair2.setInvalid();
        hdr.pair4.setInvalid();
        hdr.pair6.setInvalid();
        hdr.sumwire.words = VOTE_WORDS_DOWN;
    }

    @hidden action give_counters() {
        WORD0 = WORD1;
        WORD1 = WORD2;
        WORD2 = WORD3;
        WORD3 = WORD5;
        WORD4 = WORD6;
        WORD5 = WORD7;
        hdr.pair6.setInvalid();
        hdr.sumwire.words = VOTE_WORDS_PARTIAL;
    }

    apply {
        if (hdr.sumwire.op == OP_JUMBO) {
            jumbo.apply(hdr, meta);
        } else if (meta.effects & EFFECT_FOLDS == 0) {
            if (meta.effects & EFFECT_TAKES != 0) {
                if (hdr.sumwire.words == 1) {
                    write_one();
                } else {
                    write_words();
                }
            } else if (hdr.sumwire.words == 1) {
                read_one();
            } else {
                read_words();
            }
        } else if (hdr.sumwire.op == OP_THC) {
            if (meta.traits & (TRAIT_PARTIAL | TRAIT_TRIMMED | TRAIT_VOID) == 0) {
                thc_lookup.apply(hdr, meta);
            } else if (meta.traits & TRAIT_PARTIAL != 0) {
                // A lower switch has looked its workers' indices up: a partial result holds sums.
                take_words();
            } else if (meta.traits & TRAIT_TRIMMED != 0) {
                fill_indices();
                thc_lookup.apply(hdr, meta);
            }
            // Of a void contribution the sum stays 0.
            if (meta.traits & TRAIT_FRESH != 0) {
                write_sum();
                if (meta.effects != EFFECT_FOLDS) {
                    read_words();
                }
            } else {
                add_planes();
            }
        } else if (hdr.sumwire.words == 1) {
            if (meta.traits & TRAIT_FRESH == 0) {
                meta.sum.w0 = WORD0;
                read_one();
                elementwise.apply(hdr, meta);
            }
            write_one();
        } else if (hdr.sumwire.op == OP_VOTE) {
            vote_counters.apply(hdr, meta);
            if (meta.traits & TRAIT_FRESH != 0) {
                write_sum();
                if (meta.effects != EFFECT_FOLDS) {
                    read_words();
                }
            } else {
                read_words();
                vote_add.apply(hdr, meta);
                write_words();
            }
        } else {
            if (meta.traits & TRAIT_FRESH == 0) {
                take_words();
                read_words();
                if (hdr.sumwire.op == OP_SUM32) {
                    sum32.apply(hdr, meta, carry);
                } else {
                    sign.apply(hdr, meta, carry);
                }
            }
            write_words();
        }

        if (meta.effects & EFFECTS_PAYLOAD == 0) {
            // The packet ends here.
        } else if (hdr.sumwire.op == OP_THC) {
            if (meta.effects & EFFECT_FILLS != 0) {
                fill_result();
            }
            if (meta.traits & TRAIT_SIX_WORDS != 0) {
                give_top_words();
            } else {
                give_all_words();
            }
        } else if (hdr.sumwire.op == OP_VOTE) {
            if (meta.effects & EFFECT_GOES_UP != 0) {
                give_counters();
            } else {
                // When the root's slot closes, its counters become the vote.
                if (meta.effects & EFFECT_CLOSES != 0) {
                    vote_close.apply(hdr, meta);
                    write_vote();
                }
                give_vote();
            }
        }
    }
}

#endif
