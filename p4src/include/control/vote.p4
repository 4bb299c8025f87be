// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Majority vote: of each of 1024 values a counter of four planes, c3 the most significant, counts the plus votes.

#ifndef SUMWIRE_VOTE_P4_
#define SUMWIRE_VOTE_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "../state.p4"
#include "carry.p4"

// The complement of the least counter that wins among `count` votes, as planes of all ones or 0. That counter is half
// of the votes, rounded up: a tie is plus, as is the sign of 0.
control VoteThreshold(in bit<8> count, out word_t n3, out word_t n2, out word_t n1, out word_t n0) {
    @hidden action spread() {
        bit<8> least = (count + 1) >> 1;
        n3 = (word_t)least[3:3] - 1;
        n2 = (word_t)least[2:2] - 1;
        n1 = (word_t)least[1:1] - 1;
        n0 = (word_t)least[0:0] - 1;
    }

    apply {
        spread();
    }
}

// won = 1 where counter >= threshold. From the least significant bit on: where counter and threshold differ, the
// counter's bit decides, else what the lower bits have said. With the complement of the threshold that is the majority
// of the three bits.
control VoteMajority(in word_t c3, in word_t c2, in word_t c1, in word_t c0,
                     in word_t n3, in word_t n2, in word_t n1, in word_t n0, out word_t won) {
    @hidden action compare() {
        won = c0 | n0;
        won = (c1 & n1) | ((c1 | n1) & won);
        won = (c2 & n2) | ((c2 | n2) & won);
        won = (c3 & n3) | ((c3 | n3) & won);
    }

    apply {
        compare();
    }
}

// What a packet adds to the counters: words 0 to 3 are the counter of the first 1024 values, words 4 to 7 of the
// second.
control VoteCounters(in headers_t hdr, inout metadata_t meta) {
    // Two planes of votes become counters of one bit.
    @hidden action count_votes() {
        meta.sum.w3 = WORD0;
        meta.sum.w7 = WORD1;
    }

    // A lower switch sends counters, not its vote. They have three planes, for at most seven hosts.
    @hidden action take_counters() {
        meta.sum.w1 = WORD0;
        meta.sum.w2 = WORD1;
        meta.sum.w3 = WORD2;
        meta.sum.w5 = WORD3;
        meta.sum.w6 = WORD4;
        meta.sum.w7 = WORD5;
    }

    apply {
        if (meta.traits & TRAIT_PARTIAL == 0) {
            count_votes();
        } else {
            take_counters();
        }
    }
}

// counter = counter + addend, 1024 values of 4 bits at once, the most significant plane first: it needs the other
// planes as they were.
control VoteAdder(inout word_t c3, inout word_t c2, inout word_t c1, inout word_t c0,
                  in word_t a3, in word_t a2, in word_t a1, in word_t a0) {
    @hidden action add() {
        c3 = SUM(c3, a3, CARRY(c2, a2, CARRY(c1, a1, (c0 & a0))));
        c2 = SUM(c2, a2, CARRY(c1, a1, (c0 & a0)));
        c1 = SUM(c1, a1, (c0 & a0));
        c0 = c0 ^ a0;
    }

    apply {
        add();
    }
}

control VoteAdd(inout headers_t hdr, in metadata_t meta) {
    VoteAdder() first_add;
    VoteAdder() second_add;

    apply {
        first_add.apply(WORD0, WORD1, WORD2, WORD3, meta.sum.w0, meta.sum.w1, meta.sum.w2, meta.sum.w3);
        second_add.apply(WORD4, WORD5, WORD6, WORD7, meta.sum.w4, meta.sum.w5, meta.sum.w6, meta.sum.w7);
    }
}

// Counters become the vote, in the first two words.
control VoteClose(inout headers_t hdr, inout metadata_t meta) {
    VoteThreshold() threshold;
    VoteMajority() first_majority;
    VoteMajority() second_majority;

    apply {
        threshold.apply(STATE_COUNT(meta.state), meta.sum.w3, meta.sum.w2, meta.sum.w1, meta.sum.w0);
        first_majority.apply(WORD0, WORD1, WORD2, WORD3,
                             meta.sum.w3, meta.sum.w2, meta.sum.w1, meta.sum.w0, meta.sum.w4);
        second_majority.apply(WORD4, WORD5, WORD6, WORD7,
                              meta.sum.w3, meta.sum.w2, meta.sum.w1, meta.sum.w0, meta.sum.w5);
        WORD0 = meta.sum.w4;
        WORD1 = meta.sum.w5;
    }
}

#endif
