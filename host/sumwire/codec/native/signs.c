// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// One bit a value: bit i from the left of the bytes is value i, 1 for plus.
#include <string.h>

#include "codec.h"
#include "planes.h"
#include "streams.h"

// Values handled together.
enum { STEP = 64 };

static const uint32_t EXPONENT = 0x7F800000u;
static const uint32_t SIGN = 0x80000000u;

// Eight bytes of 0 or 1 to one byte, the first on the left; STEP of them.
static inline void pack_flags(const uint8_t *flags, uint8_t *bits) {
  uint64_t eight[STEP / 8];
  memcpy(eight, flags, STEP);
  for (int i = 0; i < STEP / 8; i++) bits[i] = gather_lowest(eight[i]);
}

// Non-zero if a value is not finite.
static inline uint32_t pack_step(const float *x, uint8_t *bits) {
  uint8_t flags[STEP];
  uint32_t word[STEP], outside = 0;
  memcpy(word, x, sizeof word);
  for (int i = 0; i < STEP; i++) {
    flags[i] = x[i] >= 0;
    outside |= (word[i] & EXPONENT) == EXPONENT;
  }
  pack_flags(flags, bits);
  return outside;
}

int codec_pack_signs(const float *x, uint64_t length, uint8_t *bits) {
  uint32_t outside = 0;
  uint64_t i = 0;
  for (; i + STEP <= length; i += STEP) outside |= pack_step(x + i, bits + i / 8);
  if (i < length) {
    // Padding is minus.
    float last[STEP];
    uint8_t packed[STEP / 8];
    for (int j = 0; j < STEP; j++) last[j] = -1.0f;
    memcpy(last, x + i, (length - i) * sizeof *x);
    outside |= pack_step(last, packed);
    memcpy(bits + i / 8, packed, (length - i + 7) / 8);
  }
  return !outside;
}

static inline void draw_step(const float *x, double inverse, uint64_t key, uint64_t first_word, uint8_t *bits) {
  uint64_t words[STEP / DRAWS];
  int16_t drawn[STEP];
  uint8_t flags[STEP];
  for (int i = 0; i < STEP / DRAWS; i++) words[i] = stream_word(key, first_word + (uint64_t)i);
  memcpy(drawn, words, sizeof drawn);
  for (int i = 0; i < STEP; i++) {
    const float uniform = uniform_number(drawn[i]);
    const float direction = (float)((double)x[i] * inverse);
    flags[i] = uniform < direction * 0.5f + 0.5f;
  }
  pack_flags(flags, bits);
}

void codec_draw_signs(const float *x, uint64_t length, double inverse, uint64_t key, uint64_t first_word,
                      uint8_t *bits) {
  uint64_t i = 0;
  for (; i + STEP <= length; i += STEP) draw_step(x + i, inverse, key, first_word + i / DRAWS, bits + i / 8);
  if (i < length) {
    float last[STEP] = {0};
    uint8_t packed[STEP / 8];
    memcpy(last, x + i, (length - i) * sizeof *x);
    draw_step(last, inverse, key, first_word + i / DRAWS, packed);
    // Padding is minus, whatever was drawn.
    const uint64_t left = length - i;
    if (left % 8) packed[left / 8] &= (uint8_t)(0xFF00 >> left % 8);
    memcpy(bits + i / 8, packed, (left + 7) / 8);
  }
}

// Four bytes of bits to 32 values.
static inline void unpack_step(const uint8_t *bits, uint32_t factor, float *target) {
  const uint32_t word = (uint32_t)bits[0] << 24 | (uint32_t)bits[1] << 16 | (uint32_t)bits[2] << 8 | bits[3];
  uint32_t values[32];
  for (int i = 0; i < 32; i++) values[i] = factor ^ (~(word << i) & SIGN);
  memcpy(target, values, sizeof values);
}

static void unpack_chunk(const uint8_t *bits, uint32_t factor, float *target, uint64_t length) {
  uint64_t i = 0;
  for (; i + 32 <= length; i += 32) unpack_step(bits + i / 8, factor, target + i);
  if (i < length) {
    float last[32];
    unpack_step(bits + i / 8, factor, last);
    memcpy(target + i, last, (length - i) * sizeof *last);
  }
}

void codec_unpack_signs(const uint8_t *words, int64_t stride, uint64_t chunk_bytes, float factor, float *target,
                        uint64_t length) {
  uint32_t factor_bits;
  memcpy(&factor_bits, &factor, sizeof factor_bits);
  for (uint64_t i = 0; i < length; i += chunk_bytes * 8, words += stride) {
    const uint64_t left = length - i;
    unpack_chunk(words, factor_bits, target + i, left < chunk_bytes * 8 ? left : chunk_bytes * 8);
  }
}
