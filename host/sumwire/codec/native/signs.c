// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// One bit a value: bit i from the left of the bytes is value i, 1 for plus.
#include "codec.h"
#include "planes.h"
#include "streams.h"

// Values handled together.
enum { STEP = 64 };

static const int32_t EXPONENT = 0x7F800000;

// Bits of STEP values, of which value 0 has the lowest, to bytes with the first on the left.
static inline void put_bits(uint64_t lowest_first, uint8_t *bits) {
  const uint64_t mirrored = mirror_bits(lowest_first);
  memcpy(bits, &mirrored, sizeof mirrored);
}

// Lanes of the result are not 0 where a value is not finite.
INLINE int_vector pack_step(const float *x, uint8_t *bits) {
  uint64_t plus = 0;
  int_vector outside = {0};
  UNROLL for (int i = 0; i < STEP / WIDTH; i++) {
    const vector here = load(x + i * WIDTH);
    plus |= (uint64_t)lane_bits(here >= 0) << i * WIDTH;
    outside |= ((int_vector)here & EXPONENT) == EXPONENT;
  }
  put_bits(plus, bits);
  return outside;
}

int codec_pack_signs(const float *x, uint64_t length, uint8_t *bits) {
  int_vector outside = {0};
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
  return !lane_bits(outside);
}

int codec_pack_sign_chunks(const float *x, uint64_t length, uint64_t chunk_bytes, uint8_t *words, int64_t stride,
                           uint8_t *outside) {
  int all_finite = 1;
  for (uint64_t i = 0; i < length; i += chunk_bytes * 8, words += stride) {
    const uint64_t left = length - i, here = left < chunk_bytes * 8 ? left : chunk_bytes * 8;
    const int finite = codec_pack_signs(x + i, here, words);
    memset(words + (here + 7) / 8, 0, chunk_bytes - (here + 7) / 8);
    *outside++ = !finite;
    all_finite &= finite;
  }
  return all_finite;
}

INLINE void draw_step(const float *x, double inverse, uint64_t key, uint64_t first_value, uint8_t *bits) {
  uint64_t plus = 0;
  UNROLL for (int first = 0; first < STEP; first += DRAWN_TOGETHER) {
    uint_vector drawn[GROUP_VECTORS];
    draw(key, 0, first_value + (uint64_t)first, drawn);
    UNROLL for (int i = 0; i < GROUP_VECTORS; i++) {
      const int place = first + i * WIDTH;
      const vector uniform = (__builtin_convertvector((int_vector)drawn[i], vector) + 0.5f) * (1.0f / 65536);
      const wide_vector exact = __builtin_convertvector(load(x + place), wide_vector) * inverse;
      const vector direction = __builtin_convertvector(exact, vector);
      plus |= (uint64_t)lane_bits(uniform < direction * 0.5f + 0.5f) << place;
    }
  }
  put_bits(plus, bits);
}

void codec_draw_signs(const float *x, uint64_t length, double inverse, uint64_t key, uint64_t first_value,
                      uint8_t *bits) {
  uint64_t i = 0;
  for (; i + STEP <= length; i += STEP) draw_step(x + i, inverse, key, first_value + i, bits + i / 8);
  if (i < length) {
    float last[STEP] = {0};
    uint8_t packed[STEP / 8];
    memcpy(last, x + i, (length - i) * sizeof *x);
    draw_step(last, inverse, key, first_value + i, packed);
    // Padding is minus, whatever was drawn.
    const uint64_t left = length - i;
    if (left % 8) packed[left / 8] &= (uint8_t)(0xFF00 >> left % 8);
    memcpy(bits + i / 8, packed, (left + 7) / 8);
  }
}

// STEP values, from the bytes of their bits.
INLINE void unpack_step(const uint8_t *bits, vector factor, float *target, int past) {
  uint64_t word;
  memcpy(&word, bits, sizeof word);
  const uint64_t minus = ~mirror_bits(word);
  UNROLL for (int i = 0; i < STEP; i += WIDTH) {
    const vector here = flip(factor, (uint32_t)(minus >> i));
    if (past) stream(target + i, here);
    else store(target + i, here);
  }
}

INLINE void unpack_chunk(const uint8_t *bits, vector factor, float *target, uint64_t length, int past) {
  uint64_t i = 0;
  for (; i + STEP <= length; i += STEP) unpack_step(bits + i / 8, factor, target + i, past);
  if (i < length) {
    float last[STEP];
    unpack_step(bits + i / 8, factor, last, 0);
    memcpy(target + i, last, (length - i) * sizeof *last);
  }
}

void codec_unpack_signs(const uint8_t *words, int64_t stride, uint64_t chunk_bytes, float factor, float *target,
                        uint64_t length, uint64_t tensor_values) {
  const int past = goes_past(target, tensor_values);
  for (uint64_t i = 0; i < length; i += chunk_bytes * 8, words += stride) {
    const uint64_t left = length - i, here = left < chunk_bytes * 8 ? left : chunk_bytes * 8;
    if (past) unpack_chunk(words, all(factor), target + i, here, 1);
    else unpack_chunk(words, all(factor), target + i, here, 0);
  }
  if (past) end_streams();
}
