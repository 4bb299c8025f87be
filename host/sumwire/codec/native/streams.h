// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Counter-based random bits, as sumwire.codec.seeds defines them.
#pragma once

#include <stdint.h>

#include "constants.h"

// Numbers drawn from a word of a rounding stream: its four 16-bit parts, lowest first.
enum { DRAWS = 4 };

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

// The uniform number in (0, 1) of a drawn 16-bit part.
static inline float uniform_number(int16_t drawn) {
  return ((float)drawn + 32768.5f) * (1.0f / 65536);
}
