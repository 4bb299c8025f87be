// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A full adder, for 1024 values at once.

#ifndef SUMWIRE_CARRY_P4_
#define SUMWIRE_CARRY_P4_

// One place of a sum, and the carry out of it: the majority of a, b and the carry in.
#define SUM(a, b, carry) (a ^ b ^ carry)
#define CARRY(a, b, carry) (b ^ ((a ^ b) & (b ^ carry)))

#endif
