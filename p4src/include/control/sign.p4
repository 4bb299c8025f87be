// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Marsit's one-bit merge (arXiv 2204.06787). A slot holds one sign per value for `held` workers, the packet one for
// `incoming` workers. Where they differ the packet's sign wins with probability incoming / (held + incoming). That
// keeps the mean: P(plus) is the fraction of the workers that have a plus, in whatever order they come.
//
// A plane of 1024 independent draws with probability p = 0.b11 b10 .. b0 (binary) takes one random plane a bit, from
// b0 on: w = w OR r where the bit is 1, w AND r where it is 0. Either is the majority of w, r and the bit.
//
// Random planes come from a linear generator of 1024 bits, three shifts and XORs a step (Marsaglia's xorshift, one
// word wide). The shifts give it the full period 2^1024 - 1. A must not be above B: the low A - B bits would hang on
// one other bit alone, and draws at that distance exclude each other. docs/sign.md has the proofs and tests.

#ifndef SUMWIRE_SIGN_P4_
#define SUMWIRE_SIGN_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
#include "../state.p4"

const int SIGN_SHIFT_A = 121;
const int SIGN_SHIFT_B = 221;
const int SIGN_SHIFT_C = 136;

// Spreads a 64-bit seed over the generator's word: an odd constant of 1024 random bits.
const word_t SIGN_SPREAD = 
    1024w0x8DB317D94C8EDFA3169A73BF4C83CF3B8C0A70A7A84567F9953A5154281FA6F554A5054CDA2EC0035E0E14CA778E6176E500BDDF37B003074F0F4C3C2052E52BDC36FC902248CD706CA4A1A9F5B19F71EC7AC8AD1B2BA06B6AE12C972399D29DB61E6BA536824DD6B80469B84B2D451C62F746B484E61CEB95BD447E7184D455;

// Both are headers, though they are never on the wire: they cost packets of other ops nothing.
header sign_generator_h {
    word_t random_bits;
    word_t draw;
}

// The bits of the probability, each all ones or 0.
header sign_weight_h {
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
control SignWeight(in bit<8> held, in bit<8> incoming, out sign_weight_h weight) {
    bit<8> both = held + incoming;
    bit<32> probability = 0;  // of 2^12

    @id(ID_ACTION_RECIPROCAL)
    action reciprocal(@id(1) bit<32> of_both) {
        // of_both is 2^20 / both: 8 bits more than are kept, so that the result can be rounded.
        probability = ((bit<32>)incoming * of_both + 128) >> 8;
    }

    @id(ID_TABLE_SIGN_RECIPROCAL)
    table sign_reciprocal {
        key = {
            both : exact @id(1);
        }
        actions = {
            reciprocal;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
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

    action spread() {
        weight.setValid();
        weight.b0 = 0 - (word_t)probability[0:0];
        weight.b1 = 0 - (word_t)probability[1:1];
        weight.b2 = 0 - (word_t)probability[2:2];
        weight.b3 = 0 - (word_t)probability[3:3];
        weight.b4 = 0 - (word_t)probability[4:4];
        weight.b5 = 0 - (word_t)probability[5:5];
        weight.b6 = 0 - (word_t)probability[6:6];
        weight.b7 = 0 - (word_t)probability[7:7];
        weight.b8 = 0 - (word_t)probability[8:8];
        weight.b9 = 0 - (word_t)probability[9:9];
        weight.b10 = 0 - (word_t)probability[10:10];
        weight.b11 = 0 - (word_t)probability[11:11];
    }

    apply {
        sign_reciprocal.apply();
        spread();
    }
}

// One word of merged signs: where the draw says so, the slot's stay.
control SignMerge(inout word_t held, in word_t signs, in sign_weight_h weight,
                  inout sign_generator_h generator) {
    action step() {
        generator.random_bits = generator.random_bits ^ (generator.random_bits << SIGN_SHIFT_A);
        generator.random_bits = generator.random_bits ^ (generator.random_bits >> SIGN_SHIFT_B);
        generator.random_bits = generator.random_bits ^ (generator.random_bits << SIGN_SHIFT_C);
    }

    action merge() {
        step();
        generator.draw = generator.random_bits & weight.b0;
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b1 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b2 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b3 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b4 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b5 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b6 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b7 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b8 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b9 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b10 & (generator.draw | generator.random_bits));
        step();
        generator.draw = (generator.draw & generator.random_bits) | (weight.b11 & (generator.draw | generator.random_bits));
        held = signs ^ ((signs ^ held) & generator.draw);
    }

    apply {
        merge();
    }
}

control SignFold(inout headers_t hdr, inout metadata_t meta) {
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

    sign_generator_h generator;
    sign_weight_h weight;

    action read_generator() {
        generator.setValid();
        generator.draw = 0;
        random_state.read(generator.random_bits, 0);
    }

    // Registers start at 0, where a linear generator stays.
    action seed_generator() {
        bit<64> seed;
        random(seed, 64w1, 64w0xFFFFFFFFFFFFFFFF);
        generator.random_bits = (word_t)seed * SIGN_SPREAD;
    }

    action write_generator() {
        random_state.write(0, generator.random_bits);
        generator.setInvalid();
        weight.setInvalid();
    }

    apply {
        read_generator();
        if (generator.random_bits == 0) {
            seed_generator();
        }
        // The header holds the slot's signs, `sum` the packet's. To the merge the slot's are the incoming ones.
        sign_weight.apply(hdr.sumwire.count, STATE_COUNT(meta.state) - hdr.sumwire.count, weight);
        merge0.apply(WORD0, meta.sum.w0, weight, generator);
        merge1.apply(WORD1, meta.sum.w1, weight, generator);
        merge2.apply(WORD2, meta.sum.w2, weight, generator);
        merge3.apply(WORD3, meta.sum.w3, weight, generator);
        merge4.apply(WORD4, meta.sum.w4, weight, generator);
        merge5.apply(WORD5, meta.sum.w5, weight, generator);
        merge6.apply(WORD6, meta.sum.w6, weight, generator);
        merge7.apply(WORD7, meta.sum.w7, weight, generator);
        write_generator();
    }
}

#endif
