// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Rotation blocks: where their values come from and where they go back to.
#pragma once

#include "codec.h"
#include "hadamard.h"
#include "magnitudes.h"
#include "planes.h"
#include "streams.h"

enum {
  PASS = CODEC_PASS_VALUES,
  LOW = PASS / 4,  // values of the first factor of a longer transform
  SIGN_BITS = 64,  // of a word of the sign stream
  LINE = 16,       // values of a line of the caches
  OUTER = PASS / RUN < RADIX ? PASS / RUN : RADIX  // rows of the first pass down and the last pass up
};

// The diagonal D of up to PASS values.
struct signs {
  uint64_t word[PASS / SIGN_BITS];
};

static inline uint64_t block_key(const struct codec_blocks *at, uint64_t block) {
  return fold_key(at->sign_key, at->first_block + block);
}

INLINE void put_signs(struct signs *signs, uint64_t key, uint64_t first, uint64_t count) {
  for (uint64_t i = 0; i < count / SIGN_BITS; i++) signs->word[i] = stream_word(key, first / SIGN_BITS + i);
}

// D v for the vector at `at`. The words lie as on a little-endian machine.
INLINE vector flipped(const struct signs *signs, vector v, uint64_t at) {
  uint16_t bits = 0;
  memcpy(&bits, (const char *)signs->word + at / 8, WIDTH < 16 ? 1 : 2);
  return flip(v, (uint32_t)bits >> at % 8);
}

// Present values of the block that starts at value `start`.
static inline uint64_t present_of(const struct codec_blocks *at, uint64_t start, uint64_t present) {
  return smaller(at->block_values, present - smaller(start, present));
}

static inline float *room(const struct codec_blocks *at, float *own, unsigned thread) {
  return at->block_values <= PASS ? own : at->work + thread * at->block_values;
}

// Where rotated values go: D v, or x minus that, through the caches or past them.
enum form { PLAIN, PAST, LEFT, LEFT_PAST };

struct back {
  enum form form;
  const float *x;  // LEFT and LEFT_PAST
  float *target;
};

// The last pass upwards over d values, and what becomes of them.
INLINE void give_rows(const struct back *back, enum form form, const struct signs *signs, const float *v, size_t d,
                      int rows) {
  const size_t stride = d / (size_t)rows;
  for (size_t column = 0; column < stride; column += WIDTH) {
    vector r[RADIX];
    load_rows(r, v + column, stride, rows);
    steps(r, rows, UP);
    UNROLL for (int i = 0; i < rows; i++) {
      const size_t at = (size_t)i * stride + column;
      vector here = flipped(signs, r[i], at);
      if (form == LEFT || form == LEFT_PAST) here = load(back->x + at) - here;
      if (form == PAST || form == LEFT_PAST) stream(back->target + at, here);
      else store(back->target + at, here);
    }
  }
}

INLINE void give_in_form(const struct back *back, enum form form, const struct signs *signs, const float *v, size_t d,
                         size_t rows) {
  // The usual block, by constants.
  if (d == PASS) give_rows(back, form, signs, v, PASS, OUTER);
  else if (rows == RADIX) give_rows(back, form, signs, v, d, RADIX);
  else if (rows == 8) give_rows(back, form, signs, v, d, 8);
  else if (rows == 4) give_rows(back, form, signs, v, d, 4);
  else give_rows(back, form, signs, v, d, 1);
}

__attribute__((noinline)) static void give(const struct back *back, const struct signs *signs, const float *v, size_t d, size_t rows) {
  if (back->form == PLAIN) give_in_form(back, PLAIN, signs, v, d, rows);
  else if (back->form == PAST) give_in_form(back, PAST, signs, v, d, rows);
  else if (back->form == LEFT) give_in_form(back, LEFT, signs, v, d, rows);
  else give_in_form(back, LEFT_PAST, signs, v, d, rows);
}

// Rotates back the d values at v, whose runs are rotated back. `key` is the block's.
static void give_back(struct back back, uint64_t key, float *v, size_t d) {
  struct signs signs;
  if (d <= PASS) {
    const size_t rows = smaller(d / RUN, RADIX), inner = d / rows;
    for (size_t i = 0; i < d; i += inner) wide_steps_up(v + i, inner, RUN);
    put_signs(&signs, key, 0, d);
    give(&back, &signs, v, d, rows);
    return;
  }
  wide_steps_up(v, d, RUN);
  for (size_t i = 0; i < d; i += LOW) {
    put_signs(&signs, key, i, LOW);
    give(&back, &signs, v + i, LOW, 1);
    if (back.x) back.x += LOW;
    back.target += LOW;
  }
}
