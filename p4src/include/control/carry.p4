// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Adders for values in bit planes, as many at once as a plane has bits.

#ifndef SUMWIRE_CARRY_P4_
#define SUMWIRE_CARRY_P4_

// One place of a sum, and the carry out of it: the majority of a, b and the carry in.
#define SUM(a, b, carry) (a ^ b ^ carry)
#define CARRY(a, b, carry) (b ^ ((a ^ b) & (b ^ carry)))

// sum0 to sum7 = sum0 to sum7 + addend0 to addend7, values of 8 bits: a ripple-carry adder, plane 7 the least
// significant. `sum` and `addend` are names without their number. It computes in `carry` and in plane 7 of the addend:
// bmv2 pays more for a word that it keeps than for ten that it computes, so only every second carry is kept, in turn in
// these two.
#define ADD_PLANES(sum, addend, carry) \
    carry = CARRY(addend##6, sum##6, (addend##7 & sum##7)); \
    sum##6 = SUM(addend##6, sum##6, (addend##7 & sum##7)); \
    sum##7 = addend##7 ^ sum##7; \
    addend##7 = CARRY(addend##4, sum##4, CARRY(addend##5, sum##5, carry)); \
    sum##4 = SUM(addend##4, sum##4, CARRY(addend##5, sum##5, carry)); \
    sum##5 = SUM(addend##5, sum##5, carry); \
    carry = CARRY(addend##2, sum##2, CARRY(addend##3, sum##3, addend##7)); \
    sum##2 = SUM(addend##2, sum##2, CARRY(addend##3, sum##3, addend##7)); \
    sum##3 = SUM(addend##3, sum##3, addend##7); \
    sum##0 = SUM(addend##0, sum##0, CARRY(addend##1, sum##1, carry)); \
    sum##1 = SUM(addend##1, sum##1, carry);

#endif
