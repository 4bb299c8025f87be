// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// What an op does to a slot's payload. Planes are added as planes, a bit of 64 values in every step, and whole planes
// in a vector register or two.
#include <string.h>

#include "aggregator.h"

enum { LANES = SLOT_BYTES / 4, MAX_LANES = MAX32_WORDS * WORD_BYTES / 4 };
// Signs in words of 64.
enum { SIGN_BYTES = SIGN_WORDS * WORD_BYTES, SIGNS = SIGN_BYTES / 8 };
enum { VOTE_COUNTERS = VOTE_WORDS_UP, VOTE_PLANES = SLOT_WORDS / VOTE_COUNTERS };
enum { MONOMIALS = 1 << THC_INDEX_PLANES };

typedef uint64_t plane[PLANE_WORDS];

static void add_xor(plane sum, const plane added) {
  for (int i = 0; i < PLANE_WORDS; i++) sum[i] ^= added[i];
}

// products[m] is the AND of the index planes whose bits m has, plane 0 being the least significant; [0] is all ones.
static void multiply_out(const uint8_t *payload, plane *products) {
  memset(products[0], 0xFF, sizeof(plane));
  for (int k = 0; k < THC_INDEX_PLANES; k++) {
    plane factor;
    memcpy(factor, payload + (THC_INDEX_PLANES - 1 - k) * WORD_BYTES, WORD_BYTES);
    for (int m = 0; m < 1 << k; m++)
      for (int i = 0; i < PLANE_WORDS; i++) products[m | 1 << k][i] = products[m][i] & factor[i];
  }
}

// Table values of a contribution, as a slot's words: the most significant plane first.
static void look_up(const struct aggregator_job *job, const uint8_t *payload, plane *values) {
  plane products[MONOMIALS];
  multiply_out(payload, products);
  for (int k = 0; k < SLOT_WORDS; k++) {
    uint64_t *value = values[SLOT_WORDS - 1 - k];
    memset(value, 0, sizeof(plane));
    for (uint32_t left = job->coefficients[k]; left; left &= left - 1) add_xor(value, products[__builtin_ctz(left)]);
  }
}

// sum += added, counters of `planes` planes with the most significant first.
static void ripple_add(plane *sum, const plane *added, int planes) {
  plane carry = {0};
  for (int k = planes - 1; k >= 0; k--) {
    for (int i = 0; i < PLANE_WORDS; i++) {
      const uint64_t a = sum[k][i], b = added[k][i], differ = a ^ b;
      sum[k][i] = differ ^ carry[i];
      carry[i] = (a & b) | (carry[i] & differ);
    }
  }
}

static void count_votes(const uint8_t *payload, plane *counters) {
  memset(counters, 0, SLOT_BYTES);
  for (int k = 0; k < VOTE_COUNTERS; k++)
    memcpy(counters[(k + 1) * VOTE_PLANES - 1], payload + k * WORD_BYTES, WORD_BYTES);
}

static void add_planes(plane *sum, const plane *added, int counters) {
  const int planes = SLOT_WORDS / counters;
  for (int k = 0; k < counters; k++) ripple_add(sum + k * planes, added + k * planes, planes);
}

static uint32_t lane(const uint8_t *from) {
  uint32_t value;
  memcpy(&value, from, sizeof value);
  return __builtin_bswap32(value);
}

static void set_lane(uint8_t *to, uint32_t value) {
  value = __builtin_bswap32(value);
  memcpy(to, &value, sizeof value);
}

static uint8_t add_lanes(const uint8_t *payload, uint8_t *words) {
  uint32_t overflow = 0;
  for (int i = 0; i < LANES; i++) {
    const uint32_t a = lane(words + 4 * i), b = lane(payload + 4 * i), sum = a + b;
    // Both addends have the same sign, and the sum has the other.
    overflow |= (a ^ sum) & (b ^ sum);
    set_lane(words + 4 * i, sum);
  }
  return overflow >> 31 ? FLAG_OVERFLOW : 0;
}

static void keep_larger(const uint8_t *payload, uint8_t *words) {
  for (int i = 0; i < MAX_LANES; i++) {
    const uint32_t a = lane(words + 4 * i), b = lane(payload + 4 * i);
    set_lane(words + 4 * i, a > b ? a : b);
  }
}

// A draw for every sign, 1 with probability share / 2^SHARE_BITS: a random word for every bit of the share, from its
// lowest set bit on. Word i of bit b is number b * SIGNS + i of the stream.
static void draw_signs(uint64_t key, uint32_t share, uint64_t *draws) {
  memset(draws, 0, SIGN_BYTES);
  for (int b = __builtin_ctz(share); b < SHARE_BITS; b++) {
    const uint64_t start = key + GOLDEN * ((uint64_t)b * SIGNS + 1), set = 0 - (uint64_t)(share >> b & 1);
    for (uint64_t i = 0; i < SIGNS; i++) {
      const uint64_t bits = mix64(start + GOLDEN * i);
      draws[i] = (draws[i] & bits) | (set & (draws[i] | bits));
    }
  }
}

// The incoming sign takes the held one's place where it is drawn.
static void merge_signs(uint64_t key, uint32_t share, const uint8_t *payload, uint8_t *words) {
  uint64_t draws[SIGNS];
  draw_signs(key, share, draws);
  for (int i = 0; i < SIGNS; i++) {
    uint64_t held, incoming;
    memcpy(&held, words + 8 * i, 8);
    memcpy(&incoming, payload + 8 * i, 8);
    held ^= (held ^ incoming) & draws[i];
    memcpy(words + 8 * i, &held, 8);
  }
}

static void fill(uint8_t *planes) {
  memset(planes, CUT_FILL_BYTE, WORD_BYTES);
  memset(planes + WORD_BYTES, 0xFF ^ CUT_FILL_BYTE, WORD_BYTES);
}

void fold_fill_index(const uint8_t *payload, uint8_t *filled) {
  memcpy(filled, payload, THC_WORDS_TRIMMED * WORD_BYTES);
  fill(filled + THC_WORDS_TRIMMED * WORD_BYTES);
}

void fold_fill_sum(uint8_t *words) { fill(words + THC_WORDS_CUT * WORD_BYTES); }

void fold_first(uint8_t op, const struct aggregator_job *job, const uint8_t *payload, uint8_t *words) {
  if (op == OP_THC) {
    plane values[SLOT_WORDS];
    look_up(job, payload, values);
    memcpy(words, values, SLOT_BYTES);
  } else if (op == OP_VOTE) {
    plane counters[SLOT_WORDS];
    count_votes(payload, counters);
    memcpy(words, counters, SLOT_BYTES);
  } else {
    memcpy(words, payload, op == OP_MAX32 ? MAX32_WORDS * WORD_BYTES : SLOT_BYTES);
  }
}

uint8_t fold_next(uint8_t op, const struct fold *fold, const uint8_t *payload, uint8_t *words) {
  if (op == OP_SUM32) return add_lanes(payload, words);
  if (op == OP_MAX32) {
    keep_larger(payload, words);
  } else if (op == OP_SIGN) {
    const uint32_t share = ((1u << SHARE_BITS) + fold->count / 2) / fold->count;
    merge_signs(fold->key, share, payload, words);
  } else {
    plane sum[SLOT_WORDS], added[SLOT_WORDS];
    memcpy(sum, words, SLOT_BYTES);
    if (op == OP_THC) look_up(fold->job, payload, added);
    else count_votes(payload, added);
    add_planes(sum, added, op == OP_THC ? 1 : VOTE_COUNTERS);
    memcpy(words, sum, SLOT_BYTES);
  }
  return 0;
}

void fold_close_votes(uint32_t count, uint8_t *words) {
  // The least counter that wins: half of the votes rounded up, so a tie is plus.
  const uint32_t least = (count + 1) >> 1;
  plane counters[SLOT_WORDS];
  memcpy(counters, words, SLOT_BYTES);
  for (int k = 0; k < VOTE_COUNTERS; k++) {
    plane won;
    memset(won, 0xFF, sizeof won);
    for (int b = 0; b < VOTE_PLANES; b++) {
      const uint64_t *c = counters[(k + 1) * VOTE_PLANES - 1 - b];
      // Where counter and threshold differ the counter's bit decides, else what the lower bits said.
      if (least >> b & 1)
        for (int i = 0; i < PLANE_WORDS; i++) won[i] &= c[i];
      else
        for (int i = 0; i < PLANE_WORDS; i++) won[i] |= c[i];
    }
    memcpy(words + k * WORD_BYTES, won, WORD_BYTES);
  }
}
