// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// THC with 8192 values in a packet, for links that carry jumbo frames (MTU 9000). bmv2 pays for a packet, and hardly for
// what is in it. The values are four groups, a to d, of 2048, the widest word that p4c knows. A group is looked up and
// added as the 1024 values of THC are, see thc.p4 and aggregate.p4. On the wire a group's planes follow one another, the
// most significant first.
// A host's contribution is padded, so that the result is no more than 512 bytes longer (bmv2's limit). Where its padding
// was, one group after another is added: a header of its own for that would cost the packets of all jobs.

#ifndef SUMWIRE_JUMBO_P4_
#define SUMWIRE_JUMBO_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
#include "carry.p4"

// Plane J of a table's values: see thc.p4. z3 to z0 are the planes of a group of indices.
#define LOOKED_UP(J, z3, z2, z1, z0) \
    ((((J##_c00 ^ (z0 & J##_c01)) ^ (z1 & (J##_c02 ^ (z0 & J##_c03)))) \
      ^ (z2 & ((J##_c04 ^ (z0 & J##_c05)) ^ (z1 & (J##_c06 ^ (z0 & J##_c07)))))) \
     ^ (z3 & (((J##_c08 ^ (z0 & J##_c09)) ^ (z1 & (J##_c10 ^ (z0 & J##_c11)))) \
      ^ (z2 & ((J##_c12 ^ (z0 & J##_c13)) ^ (z1 & (J##_c14 ^ (z0 & J##_c15))))))))

#define LOOK_UP(G) \
    jumbo_up.t7 = LOOKED_UP(p0, jumbo_up.G##0, jumbo_up.G##1, jumbo_up.G##2, jumbo_up.G##3); \
    jumbo_up.t6 = LOOKED_UP(p1, jumbo_up.G##0, jumbo_up.G##1, jumbo_up.G##2, jumbo_up.G##3); \
    jumbo_up.t5 = LOOKED_UP(p2, jumbo_up.G##0, jumbo_up.G##1, jumbo_up.G##2, jumbo_up.G##3); \
    jumbo_up.t4 = LOOKED_UP(p3, jumbo_up.G##0, jumbo_up.G##1, jumbo_up.G##2, jumbo_up.G##3); \
    jumbo_up.t3 = LOOKED_UP(p4, jumbo_up.G##0, jumbo_up.G##1, jumbo_up.G##2, jumbo_up.G##3); \
    jumbo_up.t2 = LOOKED_UP(p5, jumbo_up.G##0, jumbo_up.G##1, jumbo_up.G##2, jumbo_up.G##3); \
    jumbo_up.t1 = LOOKED_UP(p6, jumbo_up.G##0, jumbo_up.G##1, jumbo_up.G##2, jumbo_up.G##3); \
    jumbo_up.t0 = LOOKED_UP(p7, jumbo_up.G##0, jumbo_up.G##1, jumbo_up.G##2, jumbo_up.G##3);

// t0 to t7 are added to the group.
#define ADD(G) ADD_PLANES(jumbo.G, jumbo_up.t, jumbo_up.carry)

#define REGISTERS(G) \
    register<wide_t>(JUMBO_SLOTS) G##0; register<wide_t>(JUMBO_SLOTS) G##1; \
    register<wide_t>(JUMBO_SLOTS) G##2; register<wide_t>(JUMBO_SLOTS) G##3; \
    register<wide_t>(JUMBO_SLOTS) G##4; register<wide_t>(JUMBO_SLOTS) G##5; \
    register<wide_t>(JUMBO_SLOTS) G##6; register<wide_t>(JUMBO_SLOTS) G##7;

#define READ(G) \
    G##0.read(jumbo.G##0, slot); G##1.read(jumbo.G##1, slot); \
    G##2.read(jumbo.G##2, slot); G##3.read(jumbo.G##3, slot); \
    G##4.read(jumbo.G##4, slot); G##5.read(jumbo.G##5, slot); \
    G##6.read(jumbo.G##6, slot); G##7.read(jumbo.G##7, slot);

#define READ_ADDEND(G) \
    G##0.read(jumbo_up.t0, slot); G##1.read(jumbo_up.t1, slot); \
    G##2.read(jumbo_up.t2, slot); G##3.read(jumbo_up.t3, slot); \
    G##4.read(jumbo_up.t4, slot); G##5.read(jumbo_up.t5, slot); \
    G##6.read(jumbo_up.t6, slot); G##7.read(jumbo_up.t7, slot);

#define WRITE(G) \
    G##0.write(slot, jumbo.G##0); G##1.write(slot, jumbo.G##1); \
    G##2.write(slot, jumbo.G##2); G##3.write(slot, jumbo.G##3); \
    G##4.write(slot, jumbo.G##4); G##5.write(slot, jumbo.G##5); \
    G##6.write(slot, jumbo.G##6); G##7.write(slot, jumbo.G##7);

#define OF_PACKET(G) \
    LOOK_UP(G) \
    ADD(G)

#define OF_SLOT(G) \
    READ_ADDEND(G) \
    ADD(G)

// Where a packet goes out, `jumbo` has the slot's payload in the end.
control Jumbo(inout sumwire_h sumwire, inout jumbo_up_h jumbo_up, inout jumbo_h jumbo, in slot_t slot,
              in bit<16> traits, in bit<8> effects) {
    REGISTERS(a)
    REGISTERS(b)
    REGISTERS(c)
    REGISTERS(d)

    // The packet's indices, looked up, are added to `jumbo`.
    @id(ID_ACTION_JUMBO)
    @brief("Add a long packet") @description("The coefficients of the job's value table, for planes of 2048 values.")
    action jumbo_planes(
            @id(1) wide_t p0_c00, @id(2) wide_t p0_c01, @id(3) wide_t p0_c02, @id(4) wide_t p0_c03,
            @id(5) wide_t p0_c04, @id(6) wide_t p0_c05, @id(7) wide_t p0_c06, @id(8) wide_t p0_c07,
            @id(9) wide_t p0_c08, @id(10) wide_t p0_c09, @id(11) wide_t p0_c10, @id(12) wide_t p0_c11,
            @id(13) wide_t p0_c12, @id(14) wide_t p0_c13, @id(15) wide_t p0_c14, @id(16) wide_t p0_c15,
            @id(17) wide_t p1_c00, @id(18) wide_t p1_c01, @id(19) wide_t p1_c02, @id(20) wide_t p1_c03,
            @id(21) wide_t p1_c04, @id(22) wide_t p1_c05, @id(23) wide_t p1_c06, @id(24) wide_t p1_c07,
            @id(25) wide_t p1_c08, @id(26) wide_t p1_c09, @id(27) wide_t p1_c10, @id(28) wide_t p1_c11,
            @id(29) wide_t p1_c12, @id(30) wide_t p1_c13, @id(31) wide_t p1_c14, @id(32) wide_t p1_c15,
            @id(33) wide_t p2_c00, @id(34) wide_t p2_c01, @id(35) wide_t p2_c02, @id(36) wide_t p2_c03,
            @id(37) wide_t p2_c04, @id(38) wide_t p2_c05, @id(39) wide_t p2_c06, @id(40) wide_t p2_c07,
            @id(41) wide_t p2_c08, @id(42) wide_t p2_c09, @id(43) wide_t p2_c10, @id(44) wide_t p2_c11,
            @id(45) wide_t p2_c12, @id(46) wide_t p2_c13, @id(47) wide_t p2_c14, @id(48) wide_t p2_c15,
            @id(49) wide_t p3_c00, @id(50) wide_t p3_c01, @id(51) wide_t p3_c02, @id(52) wide_t p3_c03,
            @id(53) wide_t p3_c04, @id(54) wide_t p3_c05, @id(55) wide_t p3_c06, @id(56) wide_t p3_c07,
            @id(57) wide_t p3_c08, @id(58) wide_t p3_c09, @id(59) wide_t p3_c10, @id(60) wide_t p3_c11,
            @id(61) wide_t p3_c12, @id(62) wide_t p3_c13, @id(63) wide_t p3_c14, @id(64) wide_t p3_c15,
            @id(65) wide_t p4_c00, @id(66) wide_t p4_c01, @id(67) wide_t p4_c02, @id(68) wide_t p4_c03,
            @id(69) wide_t p4_c04, @id(70) wide_t p4_c05, @id(71) wide_t p4_c06, @id(72) wide_t p4_c07,
            @id(73) wide_t p4_c08, @id(74) wide_t p4_c09, @id(75) wide_t p4_c10, @id(76) wide_t p4_c11,
            @id(77) wide_t p4_c12, @id(78) wide_t p4_c13, @id(79) wide_t p4_c14, @id(80) wide_t p4_c15,
            @id(81) wide_t p5_c00, @id(82) wide_t p5_c01, @id(83) wide_t p5_c02, @id(84) wide_t p5_c03,
            @id(85) wide_t p5_c04, @id(86) wide_t p5_c05, @id(87) wide_t p5_c06, @id(88) wide_t p5_c07,
            @id(89) wide_t p5_c08, @id(90) wide_t p5_c09, @id(91) wide_t p5_c10, @id(92) wide_t p5_c11,
            @id(93) wide_t p5_c12, @id(94) wide_t p5_c13, @id(95) wide_t p5_c14, @id(96) wide_t p5_c15,
            @id(97) wide_t p6_c00, @id(98) wide_t p6_c01, @id(99) wide_t p6_c02, @id(100) wide_t p6_c03,
            @id(101) wide_t p6_c04, @id(102) wide_t p6_c05, @id(103) wide_t p6_c06, @id(104) wide_t p6_c07,
            @id(105) wide_t p6_c08, @id(106) wide_t p6_c09, @id(107) wide_t p6_c10, @id(108) wide_t p6_c11,
            @id(109) wide_t p6_c12, @id(110) wide_t p6_c13, @id(111) wide_t p6_c14, @id(112) wide_t p6_c15,
            @id(113) wide_t p7_c00, @id(114) wide_t p7_c01, @id(115) wide_t p7_c02, @id(116) wide_t p7_c03,
            @id(117) wide_t p7_c04, @id(118) wide_t p7_c05, @id(119) wide_t p7_c06, @id(120) wide_t p7_c07,
            @id(121) wide_t p7_c08, @id(122) wide_t p7_c09, @id(123) wide_t p7_c10, @id(124) wide_t p7_c11,
            @id(125) wide_t p7_c12, @id(126) wide_t p7_c13, @id(127) wide_t p7_c14, @id(128) wide_t p7_c15) {
        OF_PACKET(a)
        OF_PACKET(b)
        OF_PACKET(c)
        OF_PACKET(d)
    }

    @id(ID_ACTION_JUMBO_NOTHING)
    @brief("Add nothing") @description("The job has no long packets.")
    action jumbo_nothing() {
    }

    @id(ID_TABLE_JUMBO)
    @brief("Value tables of long packets")
    @description("By job, as thc_low and thc_high: the table of op JUMBO as coefficients.")
    @name("jumbo")
    table row {
        key = {
            sumwire.job : exact @id(1) @name("job");
        }
        actions = {
            jumbo_planes;
            @defaultonly jumbo_nothing;
        }
        const default_action = jumbo_nothing();
        size = JOBS_MAX;
    }

    // setValid() clears the header, so a fresh slot is 0.
    @hidden action begin() {
        jumbo.setValid();
    }

    @hidden action read_slot() {
        jumbo.setValid();
        READ(a)
        READ(b)
        READ(c)
        READ(d)
    }

    @hidden action write_slot() {
        WRITE(a)
        WRITE(b)
        WRITE(c)
        WRITE(d)
    }

    // A lower switch's sums are in `jumbo` already.
    @hidden action add_slot() {
        jumbo_up.setValid();
        OF_SLOT(a)
        OF_SLOT(b)
        OF_SLOT(c)
        OF_SLOT(d)
    }

    @hidden action end() {
        jumbo_up.setInvalid();
        sumwire.words = JUMBO_WORDS_DOWN;
    }

    // A packet without the headers does not come here. That is asked all the same: a switch that compiles the program
    // then knows that the fields are set, and need not set all 12 KiB to 0 for each packet of any op.
    apply {
        if (effects & EFFECT_FOLDS != 0) {
            if (traits & TRAIT_PARTIAL == 0) {
                if (traits & TRAIT_FRESH != 0) {
                    begin();
                } else {
                    read_slot();
                }
                if (jumbo_up.isValid()) {
                    row.apply();
                }
            } else if (traits & TRAIT_FRESH == 0) {
                if (jumbo.isValid()) {
                    add_slot();
                }
            }
            if (jumbo.isValid()) {
                write_slot();
            }
        } else if (effects & EFFECT_TAKES != 0) {
            if (jumbo.isValid()) {
                write_slot();
            }
        } else {
            read_slot();
        }
        end();
    }
}

#undef LOOKED_UP
#undef LOOK_UP
#undef ADD
#undef REGISTERS
#undef READ
#undef READ_ADDEND
#undef WRITE
#undef OF_PACKET
#undef OF_SLOT

#endif
