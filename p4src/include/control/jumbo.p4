// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// THC with 8192 values in a packet, for links that carry jumbo frames (MTU 9000). bmv2 pays for a packet, and hardly for
// what is in it. Since it can lengthen a packet by 512 bytes at most, a contribution has to be as long as a result, a
// byte for each value. So a host looks its indices up and sends the values themselves, and the switch only adds: 256
// values in each word of 2048 bits, the widest that p4c knows. That takes one addition, where planes take dozens.
// No sum exceeds 255 (the controller sees to that), so none carries into the value before it.

#ifndef SUMWIRE_JUMBO_P4_
#define SUMWIRE_JUMBO_P4_

#include "../headers.p4"
#include "../metadata.p4"

// W of each word.
#define ALL_WORDS(W) \
    W(w0) W(w1) W(w2) W(w3) W(w4) W(w5) W(w6) W(w7) \
    W(w8) W(w9) W(w10) W(w11) W(w12) W(w13) W(w14) W(w15) \
    W(w16) W(w17) W(w18) W(w19) W(w20) W(w21) W(w22) W(w23) \
    W(w24) W(w25) W(w26) W(w27) W(w28) W(w29) W(w30) W(w31)

#define REGISTER(w) register<wide_t>(JUMBO_SLOTS) w;
#define READ(w) w.read(jumbo.w, slot);
#define WRITE(w) w.write(slot, jumbo.w);
#define ADD(w) \
    w.read(addend.bits, slot); \
    jumbo.w = jumbo.w + addend.bits; \
    w.write(slot, jumbo.w);

// Where a packet goes out, `jumbo` has the slot's payload in the end.
control Jumbo(inout sumwire_h sumwire, inout jumbo_h jumbo, inout wide_h addend, in slot_t slot, in bit<16> traits,
              in bit<8> effects) {
    ALL_WORDS(REGISTER)

    @hidden action read_slot() {
        jumbo.setValid();
        ALL_WORDS(READ)
        sumwire.words = JUMBO_WORDS;
    }

    @hidden action write_slot() {
        ALL_WORDS(WRITE)
    }

    @hidden action add_slot() {
        addend.setValid();
        ALL_WORDS(ADD)
        addend.setInvalid();
    }

    // A packet without the header is neither folded nor taken. That is asked all the same: a switch that compiles the
    // program then knows that the fields are set, and need not set all 8 KiB to 0 for each packet of any op.
    apply {
        if (effects & (EFFECT_FOLDS | EFFECT_TAKES) == 0) {
            read_slot();
        } else if (jumbo.isValid()) {
            if (effects & EFFECT_FOLDS != 0 && traits & TRAIT_FRESH == 0) {
                add_slot();
            } else {
                write_slot();
            }
        }
    }
}

#undef ALL_WORDS
#undef REGISTER
#undef READ
#undef WRITE
#undef ADD

#endif
