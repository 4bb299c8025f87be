// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The minimum of each of the 32 unsigned elements of a word: the complement of the complements' maximum.

#ifndef SUMWIRE_MIN32_P4_
#define SUMWIRE_MIN32_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "max32.p4"

control Min32Fold(in metadata_t meta, inout payload_t sum, in payload_t stored) {
    Max32() max32;
    word_t complement;

    apply {
        if (meta.state.fresh == 0) {
            complement = ~sum.w0;
            max32.apply(complement, ~stored.w0);
            sum.w0 = ~complement;
        }
    }
}

#endif
