// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// THC's table lookup as boolean algebra on whole planes: bit J of table[z] is a polynomial over GF(2) in
// the four bits of the index z (its algebraic normal form, Reed-Muller 1954). pJ_cM is the coefficient of the
// product of those index planes whose bit is set in M: all ones or 0, a mask, so that it costs no widening.
// Plane J of the result is word 7 - J: planes travel most significant first.
// The polynomial is nested (Horner's scheme): 15 AND and 15 XOR a plane for 1024 values at once. Planes that a job's
// table does not need stay 0, as `sum` is at first.

#ifndef SUMWIRE_THC_P4_
#define SUMWIRE_THC_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"

// Index planes, z3 the most significant. Macros, since a variable would be a copy.
#define z3 word0.bits
#define z2 word1.bits
#define z1 pair2.first
#define z0 pair2.second

control ThcLookup(in word_h word0, in word_h word1, in pair_h pair2, in job_t job, inout payload_t sum) {
    @id(ID_ACTION_COEFFICIENTS_LOW)
    @brief("Look up low planes") @description("The coefficients of the five low bits of the job's value table.")
    action coefficients_low(
            @id(1) word_t p0_c00, @id(2) word_t p0_c01, @id(3) word_t p0_c02, @id(4) word_t p0_c03,
            @id(5) word_t p0_c04, @id(6) word_t p0_c05, @id(7) word_t p0_c06, @id(8) word_t p0_c07,
            @id(9) word_t p0_c08, @id(10) word_t p0_c09, @id(11) word_t p0_c10, @id(12) word_t p0_c11,
            @id(13) word_t p0_c12, @id(14) word_t p0_c13, @id(15) word_t p0_c14, @id(16) word_t p0_c15,
            @id(17) word_t p1_c00, @id(18) word_t p1_c01, @id(19) word_t p1_c02, @id(20) word_t p1_c03,
            @id(21) word_t p1_c04, @id(22) word_t p1_c05, @id(23) word_t p1_c06, @id(24) word_t p1_c07,
            @id(25) word_t p1_c08, @id(26) word_t p1_c09, @id(27) word_t p1_c10, @id(28) word_t p1_c11,
            @id(29) word_t p1_c12, @id(30) word_t p1_c13, @id(31) word_t p1_c14, @id(32) word_t p1_c15,
            @id(33) word_t p2_c00, @id(34) word_t p2_c01, @id(35) word_t p2_c02, @id(36) word_t p2_c03,
            @id(37) word_t p2_c04, @id(38) word_t p2_c05, @id(39) word_t p2_c06, @id(40) word_t p2_c07,
            @id(41) word_t p2_c08, @id(42) word_t p2_c09, @id(43) word_t p2_c10, @id(44) word_t p2_c11,
            @id(45) word_t p2_c12, @id(46) word_t p2_c13, @id(47) word_t p2_c14, @id(48) word_t p2_c15,
            @id(49) word_t p3_c00, @id(50) word_t p3_c01, @id(51) word_t p3_c02, @id(52) word_t p3_c03,
            @id(53) word_t p3_c04, @id(54) word_t p3_c05, @id(55) word_t p3_c06, @id(56) word_t p3_c07,
            @id(57) word_t p3_c08, @id(58) word_t p3_c09, @id(59) word_t p3_c10, @id(60) word_t p3_c11,
            @id(61) word_t p3_c12, @id(62) word_t p3_c13, @id(63) word_t p3_c14, @id(64) word_t p3_c15,
            @id(65) word_t p4_c00, @id(66) word_t p4_c01, @id(67) word_t p4_c02, @id(68) word_t p4_c03,
            @id(69) word_t p4_c04, @id(70) word_t p4_c05, @id(71) word_t p4_c06, @id(72) word_t p4_c07,
            @id(73) word_t p4_c08, @id(74) word_t p4_c09, @id(75) word_t p4_c10, @id(76) word_t p4_c11,
            @id(77) word_t p4_c12, @id(78) word_t p4_c13, @id(79) word_t p4_c14, @id(80) word_t p4_c15) {
        sum.w7 = (((p0_c00 ^ (z0 & p0_c01)) ^ (z1 & (p0_c02 ^ (z0 & p0_c03))))
             ^ (z2 & ((p0_c04 ^ (z0 & p0_c05)) ^ (z1 & (p0_c06 ^ (z0 & p0_c07))))))
            ^ (z3 & (((p0_c08 ^ (z0 & p0_c09)) ^ (z1 & (p0_c10 ^ (z0 & p0_c11))))
             ^ (z2 & ((p0_c12 ^ (z0 & p0_c13)) ^ (z1 & (p0_c14 ^ (z0 & p0_c15)))))));
        sum.w6 = (((p1_c00 ^ (z0 & p1_c01)) ^ (z1 & (p1_c02 ^ (z0 & p1_c03))))
             ^ (z2 & ((p1_c04 ^ (z0 & p1_c05)) ^ (z1 & (p1_c06 ^ (z0 & p1_c07))))))
            ^ (z3 & (((p1_c08 ^ (z0 & p1_c09)) ^ (z1 & (p1_c10 ^ (z0 & p1_c11))))
             ^ (z2 & ((p1_c12 ^ (z0 & p1_c13)) ^ (z1 & (p1_c14 ^ (z0 & p1_c15)))))));
        sum.w5 = (((p2_c00 ^ (z0 & p2_c01)) ^ (z1 & (p2_c02 ^ (z0 & p2_c03))))
             ^ (z2 & ((p2_c04 ^ (z0 & p2_c05)) ^ (z1 & (p2_c06 ^ (z0 & p2_c07))))))
            ^ (z3 & (((p2_c08 ^ (z0 & p2_c09)) ^ (z1 & (p2_c10 ^ (z0 & p2_c11))))
             ^ (z2 & ((p2_c12 ^ (z0 & p2_c13)) ^ (z1 & (p2_c14 ^ (z0 & p2_c15)))))));
        sum.w4 = (((p3_c00 ^ (z0 & p3_c01)) ^ (z1 & (p3_c02 ^ (z0 & p3_c03))))
             ^ (z2 & ((p3_c04 ^ (z0 & p3_c05)) ^ (z1 & (p3_c06 ^ (z0 & p3_c07))))))
            ^ (z3 & (((p3_c08 ^ (z0 & p3_c09)) ^ (z1 & (p3_c10 ^ (z0 & p3_c11))))
             ^ (z2 & ((p3_c12 ^ (z0 & p3_c13)) ^ (z1 & (p3_c14 ^ (z0 & p3_c15)))))));
        sum.w3 = (((p4_c00 ^ (z0 & p4_c01)) ^ (z1 & (p4_c02 ^ (z0 & p4_c03))))
             ^ (z2 & ((p4_c04 ^ (z0 & p4_c05)) ^ (z1 & (p4_c06 ^ (z0 & p4_c07))))))
            ^ (z3 & (((p4_c08 ^ (z0 & p4_c09)) ^ (z1 & (p4_c10 ^ (z0 & p4_c11))))
             ^ (z2 & ((p4_c12 ^ (z0 & p4_c13)) ^ (z1 & (p4_c14 ^ (z0 & p4_c15)))))));
    }

    @id(ID_ACTION_LOW_ZERO)
    @brief("Low planes are 0") @description("The job has no value table.")
    action low_zero() {
    }

    @id(ID_ACTION_COEFFICIENTS_HIGH)
    @brief("Look up high planes") @description("The coefficients of the three high bits of the job's value table.")
    action coefficients_high(
            @id(1) word_t p5_c00, @id(2) word_t p5_c01, @id(3) word_t p5_c02, @id(4) word_t p5_c03,
            @id(5) word_t p5_c04, @id(6) word_t p5_c05, @id(7) word_t p5_c06, @id(8) word_t p5_c07,
            @id(9) word_t p5_c08, @id(10) word_t p5_c09, @id(11) word_t p5_c10, @id(12) word_t p5_c11,
            @id(13) word_t p5_c12, @id(14) word_t p5_c13, @id(15) word_t p5_c14, @id(16) word_t p5_c15,
            @id(17) word_t p6_c00, @id(18) word_t p6_c01, @id(19) word_t p6_c02, @id(20) word_t p6_c03,
            @id(21) word_t p6_c04, @id(22) word_t p6_c05, @id(23) word_t p6_c06, @id(24) word_t p6_c07,
            @id(25) word_t p6_c08, @id(26) word_t p6_c09, @id(27) word_t p6_c10, @id(28) word_t p6_c11,
            @id(29) word_t p6_c12, @id(30) word_t p6_c13, @id(31) word_t p6_c14, @id(32) word_t p6_c15,
            @id(33) word_t p7_c00, @id(34) word_t p7_c01, @id(35) word_t p7_c02, @id(36) word_t p7_c03,
            @id(37) word_t p7_c04, @id(38) word_t p7_c05, @id(39) word_t p7_c06, @id(40) word_t p7_c07,
            @id(41) word_t p7_c08, @id(42) word_t p7_c09, @id(43) word_t p7_c10, @id(44) word_t p7_c11,
            @id(45) word_t p7_c12, @id(46) word_t p7_c13, @id(47) word_t p7_c14, @id(48) word_t p7_c15) {
        sum.w2 = (((p5_c00 ^ (z0 & p5_c01)) ^ (z1 & (p5_c02 ^ (z0 & p5_c03))))
             ^ (z2 & ((p5_c04 ^ (z0 & p5_c05)) ^ (z1 & (p5_c06 ^ (z0 & p5_c07))))))
            ^ (z3 & (((p5_c08 ^ (z0 & p5_c09)) ^ (z1 & (p5_c10 ^ (z0 & p5_c11))))
             ^ (z2 & ((p5_c12 ^ (z0 & p5_c13)) ^ (z1 & (p5_c14 ^ (z0 & p5_c15)))))));
        sum.w1 = (((p6_c00 ^ (z0 & p6_c01)) ^ (z1 & (p6_c02 ^ (z0 & p6_c03))))
             ^ (z2 & ((p6_c04 ^ (z0 & p6_c05)) ^ (z1 & (p6_c06 ^ (z0 & p6_c07))))))
            ^ (z3 & (((p6_c08 ^ (z0 & p6_c09)) ^ (z1 & (p6_c10 ^ (z0 & p6_c11))))
             ^ (z2 & ((p6_c12 ^ (z0 & p6_c13)) ^ (z1 & (p6_c14 ^ (z0 & p6_c15)))))));
        sum.w0 = (((p7_c00 ^ (z0 & p7_c01)) ^ (z1 & (p7_c02 ^ (z0 & p7_c03))))
             ^ (z2 & ((p7_c04 ^ (z0 & p7_c05)) ^ (z1 & (p7_c06 ^ (z0 & p7_c07))))))
            ^ (z3 & (((p7_c08 ^ (z0 & p7_c09)) ^ (z1 & (p7_c10 ^ (z0 & p7_c11))))
             ^ (z2 & ((p7_c12 ^ (z0 & p7_c13)) ^ (z1 & (p7_c14 ^ (z0 & p7_c15)))))));
    }

    @id(ID_ACTION_HIGH_ZERO)
    @brief("High planes are 0") @description("All values of the job's table are below 32.")
    action high_zero() {
    }

    @id(ID_TABLE_THC_LOW)
    @brief("Value tables, low bits") @description("By job: the five low bits of what THC's indices stand for.")
    table thc_low {
        key = {
            job : exact @id(1) @name("job");
        }
        actions = {
            coefficients_low;
            @defaultonly low_zero;
        }
        const default_action = low_zero();
        size = JOBS_MAX;
    }

    // A table of its own: most jobs' values are below 32 and have no high planes, so they need no row here.
    @id(ID_TABLE_THC_HIGH)
    @brief("Value tables, high bits")
    @description("By job: the three high bits. Most jobs' values are below 32 and need no row.")
    table thc_high {
        key = {
            job : exact @id(1) @name("job");
        }
        actions = {
            coefficients_high;
            @defaultonly high_zero;
        }
        const default_action = high_zero();
        size = JOBS_MAX;
    }

    apply {
        thc_low.apply();
        thc_high.apply();
    }
}

#undef z3
#undef z2
#undef z1
#undef z0

#endif
