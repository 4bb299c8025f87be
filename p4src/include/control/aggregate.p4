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

// The words of `hdr`.
#define WORD0 hdr.word0.bits
#define WORD1 hdr.word1.bits
#define WORD2 hdr.pair2.first
#define WORD3 hdr.pair2.second
#define WORD4 hdr.pair4.first
#define WORD5 hdr.pair4.second
#define WORD6 hdr.pair6.first
#define WORD7 hdr.pair6.second

const word_t CUT_FILL =
    1024w0xAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA;

// It takes all headers, since most of them are words of payload. `count`: hosts in the slot, with the packet's.
// `sum`: what goes into the slot.
control Aggregate(inout headers_t hdr, in bit<16> traits, inout bit<8> effects, in slot_t slot, in bit<8> count,
                  inout payload_t sum, inout scratch_t scratch) {
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
        word0.read(WORD0, slot);
    }

    // setValid() clears a header, so the words are filled after it.
    @hidden action read_words() {
        hdr.word1.setValid();
        hdr.pair2.setValid();
        hdr.pair4.setValid();
        hdr.pair6.setValid();
        word0.read(WORD0, slot);
        word1.read(WORD1, slot);
        word2.read(WORD2, slot);
        word3.read(WORD3, slot);
        word4.read(WORD4, slot);
        word5.read(WORD5, slot);
        word6.read(WORD6, slot);
        word7.read(WORD7, slot);
    }

    @hidden action write_one() {
        word0.write(slot, WORD0);
    }

    // Words that the packet does not have hold anything: its op ignores them.
    @hidden action write_words() {
        word0.write(slot, WORD0);
        word1.write(slot, WORD1);
        word2.write(slot, WORD2);
        word3.write(slot, WORD3);
        word4.write(slot, WORD4);
        word5.write(slot, WORD5);
        word6.write(slot, WORD6);
        word7.write(slot, WORD7);
    }

    @hidden action write_sum() {
        word0.write(slot, sum.w0);
        word1.write(slot, sum.w1);
        word2.write(slot, sum.w2);
        word3.write(slot, sum.w3);
        word4.write(slot, sum.w4);
        word5.write(slot, sum.w5);
        word6.write(slot, sum.w6);
        word7.write(slot, sum.w7);
    }

    // The packet's words, so that the header's can hold the slot's.
    @hidden action take_words() {
        sum.w0 = WORD0;
        sum.w1 = WORD1;
        sum.w2 = WORD2;
        sum.w3 = WORD3;
        sum.w4 = WORD4;
        sum.w5 = WORD5;
        sum.w6 = WORD6;
        sum.w7 = WORD7;
    }

    // The slot's payload + `sum`, 1024 values of 8 bits at once.
    @hidden action add_planes() {
        read_words();
        ADD_PLANES(WORD, sum.w, carry)
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
        word6.write(slot, CUT_FILL);
        word7.write(slot, ~CUT_FILL);
    }

    @hidden action give_all_words() {
        hdr.sumwire.words = SLOT_WORDS;
    }

    // The vote replaces the counters.
    @hidden action write_vote() {
        word0.write(slot, WORD0);
        word1.write(slot, WORD1);
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
            jumbo.apply(hdr.sumwire, hdr.jumbo, hdr.addend, slot, traits, effects);
        } else if (effects & EFFECT_FOLDS == 0) {
            if (effects & EFFECT_TAKES != 0) {
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
            if (traits & (TRAIT_PARTIAL | TRAIT_TRIMMED | TRAIT_VOID) == 0) {
                thc_lookup.apply(hdr.word0, hdr.word1, hdr.pair2, hdr.sumwire.job, sum);
            } else if (traits & TRAIT_PARTIAL != 0) {
                // A lower switch has looked its workers' indices up: a partial result holds sums.
                take_words();
            } else if (traits & TRAIT_TRIMMED != 0) {
                fill_indices();
                thc_lookup.apply(hdr.word0, hdr.word1, hdr.pair2, hdr.sumwire.job, sum);
            }
            // Of a void contribution the sum stays 0.
            if (traits & TRAIT_FRESH != 0) {
                write_sum();
                if (effects != EFFECT_FOLDS) {
                    read_words();
                }
            } else {
                add_planes();
            }
        } else if (hdr.sumwire.words == 1) {
            if (traits & TRAIT_FRESH == 0) {
                sum.w0 = WORD0;
                read_one();
                elementwise.apply(hdr.sumwire.op, WORD0, sum.w0, sum.w1, sum.w2, sum.w3);
            }
            write_one();
        } else if (hdr.sumwire.op == OP_VOTE) {
            vote_counters.apply(hdr.word0, hdr.word1, hdr.pair2, hdr.pair4, traits & TRAIT_PARTIAL == 0, sum);
            if (traits & TRAIT_FRESH != 0) {
                write_sum();
                if (effects != EFFECT_FOLDS) {
                    read_words();
                }
            } else {
                read_words();
                vote_add.apply(hdr.word0, hdr.word1, hdr.pair2, hdr.pair4, hdr.pair6, sum);
                write_words();
            }
        } else {
            if (traits & TRAIT_FRESH == 0) {
                take_words();
                read_words();
                if (hdr.sumwire.op == OP_SUM32) {
                    sum32.apply(hdr.word0, hdr.word1, hdr.pair2, hdr.pair4, hdr.pair6, sum, effects, carry);
                } else {
                    sign.apply(hdr.word0, hdr.word1, hdr.pair2, hdr.pair4, hdr.pair6, sum, hdr.sumwire.count, count,
                               scratch, carry);
                }
            }
            write_words();
        }

        if (effects & EFFECTS_PAYLOAD == 0) {
            // The packet ends here.
        } else if (hdr.sumwire.op == OP_THC) {
            if (effects & EFFECT_FILLS != 0) {
                fill_result();
            }
            if (traits & TRAIT_SIX_WORDS != 0) {
                give_top_words();
            } else {
                give_all_words();
            }
        } else if (hdr.sumwire.op == OP_VOTE) {
            if (effects & EFFECT_GOES_UP != 0) {
                give_counters();
            } else {
                // When the root's slot closes, its counters become the vote.
                if (effects & EFFECT_CLOSES != 0) {
                    vote_close.apply(hdr.word0, hdr.word1, hdr.pair2, hdr.pair4, hdr.pair6, count, sum);
                    write_vote();
                }
                give_vote();
            }
        }
    }
}

#undef WORD0
#undef WORD1
#undef WORD2
#undef WORD3
#undef WORD4
#undef WORD5
#undef WORD6
#undef WORD7

#endif
