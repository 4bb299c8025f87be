// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Majority vote: of each of 1024 values a counter of four planes, c3 the most significant, counts the plus votes.

#ifndef SUMWIRE_VOTE_P4_
#define SUMWIRE_VOTE_P4_

#include "../headers.p4"
#include "../metadata.p4"

// counter = counter + addend, 1024 values of 4 bits at once.
control VoteAdd(inout word_t c3, inout word_t c2, inout word_t c1, inout word_t c0,
                in word_t a3, in word_t a2, in word_t a1, in word_t a0) {
    word_t carry;
    word_t differ;
    word_t next;

    action add() {
        carry = c0 & a0;
        c0 = c0 ^ a0;
        differ = c1 ^ a1;
        next = (c1 & a1) | (carry & differ);
        c1 = differ ^ carry;
        carry = next;
        differ = c2 ^ a2;
        next = (c2 & a2) | (carry & differ);
        c2 = differ ^ carry;
        c3 = c3 ^ a3 ^ next;
    }

    apply {
        add();
    }
}

// The complement of the least counter that wins among `count` votes, as planes of all ones or 0. That counter is half
// of the votes, rounded up: a tie is plus, as is the sign of 0.
control VoteThreshold(in bit<8> count, out word_t n3, out word_t n2, out word_t n1, out word_t n0) {
    action spread() {
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
    action compare() {
        won = c0 | n0;
        won = (c1 & n1) | ((c1 | n1) & won);
        won = (c2 & n2) | ((c2 | n2) & won);
        won = (c3 & n3) | ((c3 | n3) & won);
    }

    apply {
        compare();
    }
}

// Words 0 to 3 are the counter of the first 1024 values, words 4 to 7 of the second.
control VoteFold(in headers_t hdr, in metadata_t meta, inout payload_t sum, in payload_t stored) {
    VoteAdd() first_add;
    VoteAdd() second_add;

    // Two planes of votes become counters of one bit.
    action count_votes() {
        sum.w0 = 0;
        sum.w1 = 0;
        sum.w2 = 0;
        sum.w3 = hdr.word0.bits;
        sum.w4 = 0;
        sum.w5 = 0;
        sum.w6 = 0;
        sum.w7 = hdr.word1.bits;
    }

    // A lower switch sends counters, not its vote. They have three planes, for at most seven hosts.
    action take_counters() {
        sum.w0 = 0;
        sum.w1 = hdr.word0.bits;
        sum.w2 = hdr.word1.bits;
        sum.w3 = hdr.word2.bits;
        sum.w4 = 0;
        sum.w5 = hdr.word3.bits;
        sum.w6 = hdr.word4.bits;
        sum.w7 = hdr.word5.bits;
    }

    apply {
        if (meta.partial == 0) {
            count_votes();
        } else {
            take_counters();
        }
        if (meta.state.fresh == 0) {
            first_add.apply(sum.w0, sum.w1, sum.w2, sum.w3, stored.w0, stored.w1, stored.w2, stored.w3);
            second_add.apply(sum.w4, sum.w5, sum.w6, sum.w7, stored.w4, stored.w5, stored.w6, stored.w7);
        }
    }
}

// Counters become the vote, in the first two words.
control VoteClose(in metadata_t meta, inout payload_t sum) {
    VoteThreshold() threshold;
    VoteMajority() first_majority;
    VoteMajority() second_majority;
    word_t n3;
    word_t n2;
    word_t n1;
    word_t n0;

    apply {
        threshold.apply(meta.state.count, n3, n2, n1, n0);
        word_t first;
        word_t second;
        first_majority.apply(sum.w0, sum.w1, sum.w2, sum.w3, n3, n2, n1, n0, first);
        second_majority.apply(sum.w4, sum.w5, sum.w6, sum.w7, n3, n2, n1, n0, second);
        sum.w0 = first;
        sum.w1 = second;
    }
}

#endif
