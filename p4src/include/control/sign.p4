// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Marsit's one-bit merge (arXiv 2204.06787). A slot holds one sign per value for `held` workers, the packet one for
// `incoming` workers. Where they differ the packet's sign wins with probability incoming / (held + incoming). That
// keeps the mean: P(plus) is the fraction of the workers that have a plus, in whatever order they come.
//
// A plane of 1024 independent draws with probability p = 0.b11 b10 .. b0 (binary) takes one random plane a bit, from
// b0 on: w = w OR r where the bit is 1, w AND r where it is 0. Either is the majority of w, r and the bit. Up to the
// first 1 that leaves zeros, so nothing is drawn for them: random planes are most of a merge's cost.
//
// Random planes come from a linear generator of 1024 bits, three shifts and XORs a step (Marsaglia's xorshift, one
// word wide). The shifts give it the full period 2^1024 - 1. A must not be above B: the low A - B bits would hang on
// one other bit alone, and draws at that distance exclude each other. docs/sign.md has the proofs and tests.

#ifndef SUMWIRE_SIGN_P4_
#define SUMWIRE_SIGN_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"

const int SIGN_SHIFT_A = 121;
const int SIGN_SHIFT_B = 221;
const int SIGN_SHIFT_C = 136;

// Spreads a 64-bit seed over the generator's word: an odd constant of 1024 random bits.
const word_t SIGN_SPREAD = 
    1024w0x8DB317D94C8EDFA3169A73BF4C83CF3B8C0A70A7A84567F9953A5154281FA6F554A5054CDA2EC0035E0E14CA778E6176E500BDDF37B003074F0F4C3C2052E52BDC36FC902248CD706CA4A1A9F5B19F71EC7AC8AD1B2BA06B6AE12C972399D29DB61E6BA536824DD6B80469B84B2D451C62F746B484E61CEB95BD447E7184D455;

// The bits of the probability, each all ones or 0, and the draw. A header, though it is never on the wire: it costs
// packets of other ops nothing.
header sign_weight_h {
    word_t draw;
    word_t b0;
    word_t b1;
    word_t b2;
    word_t b3;
    word_t b4;
    word_t b5;
    word_t b6;
    word_t b7;
    word_t b8;
    word_t b9;
    word_t b10;
    word_t b11;
}

// p = incoming / (held + incoming) to 12 bits, as planes.
control SignWeight(in bit<8> held, in bit<8> incoming, out sign_weight_h weight, inout bit<32> scratch) {
    // For the table, whose action makes it the probability, of 2^12.
    @hidden action add_counts() {
        scratch = (bit<32>)(held + incoming);
    }

    @id(ID_ACTION_RECIPROCAL)
    @brief("Take the probability") @description("of_both: 2^20 divided by the workers of packet and slot.")
    action reciprocal(@id(1) bit<32> of_both) {
        // of_both is 2^20 / both: 8 bits more than are kept, so that the result can be rounded.
        scratch = ((bit<32>)incoming * of_both + 128) >> 8;
    }

    @brief("Keep the signs") @description("So many workers are not possible.")
    action no_probability() {
        scratch = 0;
    }

    @id(ID_TABLE_SIGN_RECIPROCAL)
    @brief("Reciprocals") @description("By the workers of packet and slot together. The rows are the program's own.")
    table sign_reciprocal {
        key = {
            scratch : exact @id(2) @name("both");
        }
        actions = {
            reciprocal;
            @defaultonly no_probability;
        }
        const default_action = no_probability();
        const entries = {
            2 : reciprocal(524288);
            3 : reciprocal(349525);
            4 : reciprocal(262144);
            5 : reciprocal(209715);
            6 : reciprocal(174763);
            7 : reciprocal(149797);
            8 : reciprocal(131072);
            9 : reciprocal(116508);
            10 : reciprocal(104858);
            11 : reciprocal(95325);
            12 : reciprocal(87381);
            13 : reciprocal(80660);
            14 : reciprocal(74898);
            15 : reciprocal(69905);
            16 : reciprocal(65536);
        }
    }

    @hidden action spread() {
        weight.setValid();
        weight.draw = 0;
        weight.b0 = 0 - (word_t)scratch[0:0];
        weight.b1 = 0 - (word_t)scratch[1:1];
        weight.b2 = 0 - (word_t)scratch[2:2];
        weight.b3 = 0 - (word_t)scratch[3:3];
        weight.b4 = 0 - (word_t)scratch[4:4];
        weight.b5 = 0 - (word_t)scratch[5:5];
        weight.b6 = 0 - (word_t)scratch[6:6];
        weight.b7 = 0 - (word_t)scratch[7:7];
        weight.b8 = 0 - (word_t)scratch[8:8];
        weight.b9 = 0 - (word_t)scratch[9:9];
        weight.b10 = 0 - (word_t)scratch[10:10];
        weight.b11 = 0 - (word_t)scratch[11:11];
    }

    apply {
        add_counts();
        sign_reciprocal.apply();
        spread();
    }
}

// One word of merged signs: where the draw says so, the slot's stay.
control SignMerge(inout word_t held, in word_t signs, in bit<32> probability,
                  inout sign_weight_h weight, inout word_t random_bits) {
    @hidden action step() {
        random_bits = random_bits ^ (random_bits << SIGN_SHIFT_A);
        random_bits = random_bits ^ (random_bits >> SIGN_SHIFT_B);
        random_bits = random_bits ^ (random_bits << SIGN_SHIFT_C);
    }

    @hidden action fine_digits() {
        step();
        weight.draw = random_bits & weight.b0;
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b1 & (weight.draw | random_bits));
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b2 & (weight.draw | random_bits));
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b3 & (weight.draw | random_bits));
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b4 & (weight.draw | random_bits));
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b5 & (weight.draw | random_bits));
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b6 & (weight.draw | random_bits));
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b7 & (weight.draw | random_bits));
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b8 & (weight.draw | random_bits));
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b9 & (weight.draw | random_bits));
    }

    @hidden action quarters() {
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b10 & (weight.draw | random_bits));
    }

    @hidden action halves() {
        step();
        weight.draw = (weight.draw & random_bits) | (weight.b11 & (weight.draw | random_bits));
        held = signs ^ ((signs ^ held) & weight.draw);
        weight.draw = 0;
    }

    apply {
        if (probability[9:0] != 0) {
            fine_digits();
        }
        if (probability[10:0] != 0) {
            quarters();
        }
        halves();
    }
}

// The headers hold the slot's signs, `signs` are the packet's. The packet has those of `incoming` workers, and slot and
// packet together those of `both`.
control SignFold(inout word_h word0, inout word_h word1, inout pair_h pair2, inout pair_h pair4,
                 inout pair_h pair6, in payload_t signs, in bit<8> incoming, in bit<8> both, inout scratch_t scratch,
                 out word_t random_bits) {
    register<word_t>(1) random_state;

    SignWeight() sign_weight;
    SignMerge() merge0;
    SignMerge() merge1;
    SignMerge() merge2;
    SignMerge() merge3;
    SignMerge() merge4;
    SignMerge() merge5;
    SignMerge() merge6;
    SignMerge() merge7;

    sign_weight_h weight;

    @hidden action read_generator() {
        random_state.read(random_bits, 0);
    }

    // Registers start at 0, where a linear generator stays.
    @hidden action seed_generator() {
        random(scratch.number, 64w1, 64w0xFFFFFFFFFFFFFFFF);
        random_bits = (word_t)scratch.number * SIGN_SPREAD;
    }

    @hidden action write_generator() {
        random_state.write(0, random_bits);
        weight.setInvalid();
    }

    apply {
        read_generator();
        if (random_bits == 0) {
            seed_generator();
        }
        // To the merge the slot's are the incoming ones.
        sign_weight.apply(incoming, both - incoming, weight, scratch.value);
        merge0.apply(word0.bits, signs.w0, scratch.value, weight, random_bits);
        merge1.apply(word1.bits, signs.w1, scratch.value, weight, random_bits);
        merge2.apply(pair2.first, signs.w2, scratch.value, weight, random_bits);
        merge3.apply(pair2.second, signs.w3, scratch.value, weight, random_bits);
        merge4.apply(pair4.first, signs.w4, scratch.value, weight, random_bits);
        merge5.apply(pair4.second, signs.w5, scratch.value, weight, random_bits);
        merge6.apply(pair6.first, signs.w6, scratch.value, weight, random_bits);
        merge7.apply(pair6.second, signs.w7, scratch.value, weight, random_bits);
        write_generator();
    }
}

#endif
