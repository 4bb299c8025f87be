// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// What the ops do to a slot's payload. Planes are added as planes: a word of 64 bits is one bit of 64 values, and the
// compiler puts a whole plane into one or two vector registers.
#include <string.h>

#include "aggregator.h"

// Signs in words of 64.
enum { SIGN_BYTES = SIGN_WORDS * WORD_BYTES, SIGNS = SIGN_BYTES / 8 };
enum { VOTE_COUNTERS = VOTE_WORDS_UP, VOTE_PLANES = SLOT_WORDS / VOTE_COUNTERS };
// Planes of a counter in a partial result.
enum { VOTE_PLANES_PARTIAL = VOTE_WORDS_PARTIAL / VOTE_COUNTERS };
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

// The low planes of counter k, in a slot's words.
static int low_planes(int k) { return (k + 1) * VOTE_PLANES - VOTE_PLANES_PARTIAL; }

static void take_counters(const uint8_t *payload, plane *counters) {
  memset(counters, 0, SLOT_BYTES);
  for (int k = 0; k < VOTE_COUNTERS; k++)
    memcpy(counters[low_planes(k)], payload + k * VOTE_PLANES_PARTIAL * WORD_BYTES, VOTE_PLANES_PARTIAL * WORD_BYTES);
}

void fold_pass_votes(const uint8_t *words, uint8_t *partial) {
  for (int k = 0; k < VOTE_COUNTERS; k++)
    memcpy(partial + k * VOTE_PLANES_PARTIAL * WORD_BYTES, words + low_planes(k) * WORD_BYTES,
           VOTE_PLANES_PARTIAL * WORD_BYTES);
}

static void add_planes(plane *sum, const plane *added, int counters) {
  const int planes = SLOT_WORDS / counters;
  for (int k = 0; k < counters; k++) ripple_add(sum + k * planes, added + k * planes, planes);
}

static uint32_t element(const uint8_t *from) {
  uint32_t value;
  memcpy(&value, from, sizeof value);
  return __builtin_bswap32(value);
}

static void set_element(uint8_t *to, uint32_t value) {
  value = __builtin_bswap32(value);
  memcpy(to, &value, sizeof value);
}

static uint8_t add_elements(const uint8_t *payload, uint8_t *words) {
  uint32_t overflow = 0;
  for (int at = 0; at < SUM32_WORDS * WORD_BYTES; at += 4) {
    const uint32_t a = element(words + at), b = element(payload + at), sum = a + b;
    // Both addends have the same sign, and the sum has the other.
    overflow |= (a ^ sum) & (b ^ sum);
    set_element(words + at, sum);
  }
  return overflow >> 31 ? FLAG_OVERFLOW : 0;
}

// Element-wise ops: value replaces each element a, of itself and of the contribution's element b.
#define REPLACE(value)                                                    \
  for (int at = 0; at < ELEMENTWISE_WORDS * WORD_BYTES; at += 4) {        \
    const uint32_t a = element(words + at), b = element(payload + at);    \
    set_element(words + at, value);                                       \
  }                                                                       \
  return 0

// A draw for every sign, 1 with probability p / 2^PROBABILITY_BITS: takes a random word for every bit of p, from its
// lowest set bit on. Word i of bit b is number b * SIGNS + i of the stream.
static void draw_signs(uint64_t key, uint32_t p, uint64_t *draws) {
  memset(draws, 0, SIGN_BYTES);
  for (int b = __builtin_ctz(p); b < PROBABILITY_BITS; b++) {
    const uint64_t start = key + GOLDEN * ((uint64_t)b * SIGNS + 1), set = 0 - (uint64_t)(p >> b & 1);
    for (uint64_t i = 0; i < SIGNS; i++) {
      const uint64_t bits = mix64(start + GOLDEN * i);
      draws[i] = (draws[i] & bits) | (set & (draws[i] | bits));
    }
  }
}

// The incoming sign replaces the held one where a draw says so, with probability weight / count.
static void merge_signs(const struct fold *fold, const uint8_t *payload, uint8_t *words) {
  uint64_t draws[SIGNS];
  draw_signs(fold->key, ((fold->weight << PROBABILITY_BITS) + fold->count / 2) / fold->count, draws);
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

// A whole slot: a table value or counters, from a contribution.
static void as_planes(uint8_t op, const struct fold *fold, const uint8_t *payload, plane *planes) {
  if (op == OP_THC && fold->partial) memcpy(planes, payload, SLOT_BYTES);
  else if (op == OP_THC) look_up(fold->job, payload, planes);
  else if (fold->partial) take_counters(payload, planes);
  else count_votes(payload, planes);
}

void fold_first(uint8_t op, const struct fold *fold, const uint8_t *payload, uint8_t *words) {
  if (op == OP_THC || op == OP_VOTE) {
    plane planes[SLOT_WORDS];
    as_planes(op, fold, payload, planes);
    memcpy(words, planes, SLOT_BYTES);
  } else {
    memcpy(words, payload, OP_WORDS[op].up * WORD_BYTES);
  }
}

static void fold_planes(uint8_t op, const struct fold *fold, const uint8_t *payload, uint8_t *words) {
  plane sum[SLOT_WORDS], added[SLOT_WORDS];
  memcpy(sum, words, SLOT_BYTES);
  as_planes(op, fold, payload, added);
  add_planes(sum, added, op == OP_THC ? 1 : VOTE_COUNTERS);
  memcpy(words, sum, SLOT_BYTES);
}

uint8_t fold_next(uint8_t op, const struct fold *fold, const uint8_t *payload, uint8_t *words) {
  switch (op) {
    case OP_THC:
    case OP_VOTE: fold_planes(op, fold, payload, words); return 0;
    case OP_MAX32: REPLACE(a > b ? a : b);
    case OP_SUM32: return add_elements(payload, words);
    case OP_SIGN: merge_signs(fold, payload, words); return 0;
    case OP_MIN32: REPLACE(a < b ? a : b);
    default: return 0;
  }
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
      // Where counter and threshold differ the counter's bit decides, else the lower bits.
      if (least >> b & 1)
        for (int i = 0; i < PLANE_WORDS; i++) won[i] &= c[i];
      else
        for (int i = 0; i < PLANE_WORDS; i++) won[i] |= c[i];
    }
    memcpy(words + k * WORD_BYTES, won, WORD_BYTES);
  }
}
