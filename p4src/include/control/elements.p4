// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements: integers of ELEMENT_BITS in one word, an even number of them. Additions and subtractions are done on every
// second element at a time: a carry or borrow then has an element of room and reaches no other element.

#ifndef SUMWIRE_ELEMENTS_P4_
#define SUMWIRE_ELEMENTS_P4_

#include "../codes.p4"

// A 1 in the lowest bit of every second element, and of every element.
const int CELLS = ((1 << WORD_BITS) - 1) / ((1 << (2 * ELEMENT_BITS)) - 1);
const int ELEMENTS = ((1 << WORD_BITS) - 1) / ((1 << ELEMENT_BITS) - 1);

const word_t ELEMENTS_LOW = (word_t)(CELLS * ((1 << ELEMENT_BITS) - 1));
const word_t ELEMENTS_HIGH = (word_t)((CELLS * ((1 << ELEMENT_BITS) - 1)) << ELEMENT_BITS);
// The bit above an element, in every cell of two.
const word_t ELEMENTS_GUARD = (word_t)(CELLS << ELEMENT_BITS);
const word_t ELEMENTS_SIGN = (word_t)(ELEMENTS << (ELEMENT_BITS - 1));

// The wrapped sum of two words.
#define SUM_OF_ELEMENTS(a, b) \
    ((((a & ELEMENTS_LOW) + (b & ELEMENTS_LOW)) & ELEMENTS_LOW) \
     | (((a & ELEMENTS_HIGH) + (b & ELEMENTS_HIGH)) & ELEMENTS_HIGH))

// sum = sum + addend, for each of the signed elements. A sum that leaves an element's range wraps, and its sign bit is
// set in `overflow`: both addends have the same sign, and the sum has the other.
control AddElements(inout word_t sum, in word_t addend, inout word_t overflow) {
    @hidden action add() {
        overflow = overflow
            | ((sum ^ SUM_OF_ELEMENTS(sum, addend)) & (((sum ^ addend) & ELEMENTS_SIGN) ^ ELEMENTS_SIGN));
        sum = SUM_OF_ELEMENTS(sum, addend);
    }

    apply {
        add();
    }
}

// held = the larger of held and word, for each of the unsigned elements. The smaller is the complement of what it makes
// of the complements. It computes in a, b and c.
// Every second element is compared at a time, in cells of two: (1 << ELEMENT_BITS | a) - b keeps its highest bit
// exactly if a >= b, and no borrow leaves the cell. That bit minus itself shifted down to bit 0 is a mask of the whole
// element.
control LargerElements(inout word_t held, in word_t word, inout word_t a, inout word_t b, inout word_t c) {
    word_t wins;

    // a = the larger of a and b, in the low half of every cell.
    @hidden action keep_larger() {
        wins = ((a | ELEMENTS_GUARD) - b) & ELEMENTS_GUARD;
        wins = wins - (wins >> ELEMENT_BITS);
        a = b ^ ((a ^ b) & wins);
    }

    apply {
        a = held & ELEMENTS_LOW;
        b = word & ELEMENTS_LOW;
        keep_larger();
        c = a;
        a = (held >> ELEMENT_BITS) & ELEMENTS_LOW;
        b = (word >> ELEMENT_BITS) & ELEMENTS_LOW;
        keep_larger();
        held = c | (a << ELEMENT_BITS);
    }
}

#endif
