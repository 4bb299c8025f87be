// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Majority vote: of each of 1024 values a counter of four planes, c3 the most significant, counts the plus votes.

#ifndef SUMWIRE_VOTE_P4_
#define SUMWIRE_VOTE_P4_

#include "../headers.p4"
#include "../metadata.p4"
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

// What a packet of a host or of a lower switch adds to the counters: words 0 to 3 are the counter of the first 1024
// values, words 4 to 7 of the second.
control VoteCounters(in word_h word0, in word_h word1, in pair_h pair2, in pair_h pair4, in bool from_host,
                     inout payload_t counters) {
    // Two planes of votes become counters of one bit.
    @hidden action count_votes() {
        counters.w3 = word0.bits;
        counters.w7 = word1.bits;
    }

    // A lower switch sends counters, not its vote. They have three planes, for at most seven hosts.
    @hidden action take_counters() {
        counters.w1 = word0.bits;
        counters.w2 = word1.bits;
        counters.w3 = pair2.first;
        counters.w5 = pair2.second;
        counters.w6 = pair4.first;
        counters.w7 = pair4.second;
    }

    apply {
        if (from_host) {
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

control VoteAdd(inout word_h word0, inout word_h word1, inout pair_h pair2, inout pair_h pair4,
                inout pair_h pair6, in payload_t addend) {
    VoteAdder() first_add;
    VoteAdder() second_add;

    apply {
        first_add.apply(word0.bits, word1.bits, pair2.first, pair2.second,
                        addend.w0, addend.w1, addend.w2, addend.w3);
        second_add.apply(pair4.first, pair4.second, pair6.first, pair6.second,
                         addend.w4, addend.w5, addend.w6, addend.w7);
    }
}

// Counters of `count` hosts become the vote, in the first two words. It computes in `scratch`.
control VoteClose(inout word_h word0, inout word_h word1, inout pair_h pair2, inout pair_h pair4,
                  inout pair_h pair6, in bit<8> count, inout payload_t scratch) {
    VoteThreshold() threshold;
    VoteMajority() first_majority;
    VoteMajority() second_majority;

    apply {
        threshold.apply(count, scratch.w3, scratch.w2, scratch.w1, scratch.w0);
        first_majority.apply(word0.bits, word1.bits, pair2.first, pair2.second,
                             scratch.w3, scratch.w2, scratch.w1, scratch.w0, scratch.w4);
        second_majority.apply(pair4.first, pair4.second, pair6.first, pair6.second,
                              scratch.w3, scratch.w2, scratch.w1, scratch.w0, scratch.w5);
        word0.bits = scratch.w4;
        word1.bits = scratch.w5;
    }
}

#endif
