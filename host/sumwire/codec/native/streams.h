// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Counter-based random bits, as sumwire.codec.seeds defines them.
#pragma once

#include "vectors.h"

// Values that a group of eight words of a rounding stream serves.
enum { DRAWN_TOGETHER = 32, GROUP_WORDS = 8, GROUP_VECTORS = DRAWN_TOGETHER / WIDTH };

static inline uint64_t mix64(uint64_t word) {
  word = (word ^ word >> 30) * CODEC_MIX_1;
  word = (word ^ word >> 27) * CODEC_MIX_2;
  return word ^ word >> 31;
}

// Word `index` of the stream with this key.
static inline uint64_t stream_word(uint64_t key, uint64_t index) {
  return mix64(key + (index + 1) * CODEC_GOLDEN);
}

// A key folded from `base` and one part more.
static inline uint64_t fold_key(uint64_t base, uint64_t part) {
  return mix64((base ^ part) + CODEC_GOLDEN);
}

// The 16-bit numbers of DRAWN_TOGETHER values, of which value `first` of the stream is the first. The low half of the
// words' 32-bit parts belongs to the first 16 values, the high half to the others.
INLINE void draw(uint64_t key, uint32_t flipped, uint64_t first, uint_vector *drawn) {
#if WIDTH == 16
  const word_vector place = {1, 2, 3, 4, 5, 6, 7, 8};
#elif WIDTH == 8
  const word_vector place = {1, 2, 3, 4};
#else
  const word_vector place = {1, 2};
#endif
  const word_vector steps_of = place * CODEC_GOLDEN;
  UNROLL for (int i = 0; i < GROUP_VECTORS / 2; i++) {
    const uint64_t index = first / DRAWN_TOGETHER * GROUP_WORDS + (uint64_t)i * WIDTH / 2;
    word_vector word = steps_of + (key + index * CODEC_GOLDEN);
    word = (word ^ word >> 30) * CODEC_MIX_1;
    word = (word ^ word >> 27) * CODEC_MIX_2;
    word ^= word >> 31;
    drawn[i] = ((uint_vector)word & 0xFFFFu) ^ flipped;
    drawn[i + GROUP_VECTORS / 2] = ((uint_vector)word >> 16) ^ flipped;
  }
}
