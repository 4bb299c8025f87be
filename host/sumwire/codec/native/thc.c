// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// THC, one rotation block at a time, so that a block stays in the first-level cache from values to words or back. The
// operations and their order are those of sumwire.codec.thc_torch.
#include <string.h>

#include "codec.h"
#include "hadamard.h"
#include "vectors.h"
#include "planes.h"
#include "streams.h"

enum {
  VALUES = CODEC_CHUNK_VALUES,
  SIGN_BITS = 64  // of a word of the sign stream
};

static inline uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

// +-scale for the 16 values of a vector: minus where the value's bit is set. Value 0 has the lowest bit.
INLINE vector sign_factors(uint32_t bits, vector scale) {
  const uint_vector to_top = {31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16};
  const uint_vector all = (uint_vector){0} + bits;
  return (vector)((uint_vector)scale ^ (all << to_top & 0x80000000u));
}

// to = from * (+-scale), or less_from - from * (+-scale) if `less_from` is given. All may be the same memory.
INLINE void flip(const float *from, const float *less_from, float *to, uint64_t d, uint64_t key, float scale) {
  const vector scales = (vector){0} + scale;
  for (uint64_t first = 0; first < d; first += SIGN_BITS) {
    const uint64_t word = stream_word(key, first / SIGN_BITS);
    for (uint64_t i = 0; i < SIGN_BITS; i += WIDTH) {
      const vector flipped = load(from + first + i) * sign_factors((uint32_t)(word >> i), scales);
      store(to + first + i, less_from ? load(less_from + first + i) - flipped : flipped);
    }
  }
}

// Uniform numbers of one chunk.
static void draw(uint64_t key, uint64_t first_word, float *uniform) {
  uint64_t words[VALUES / DRAWS];
  int16_t drawn[VALUES];
  for (int i = 0; i < VALUES / DRAWS; i++) words[i] = stream_word(key, first_word + (uint64_t)i);
  memcpy(drawn, words, sizeof drawn);
  for (int i = 0; i < VALUES; i++) uniform[i] = uniform_number(drawn[i]);
}

// Slope and offset of every value's cell.
static void look_up_cells(const struct codec_table *table, const int32_t *cell, float *slope, float *offset) {
  for (int i = 0; i < VALUES; i += WIDTH) {
    store(slope + i, look_up(table->slope, load_int(cell + i)));
    store(offset + i, look_up(table->offset, load_int(cell + i)));
  }
}

// As look_up_cells, for tables of more cells than `look_up` takes.
static void look_up_many_cells(const struct codec_table *table, const int32_t *cell, float *slope, float *offset) {
  for (int i = 0; i < VALUES; i++) {
    slope[i] = table->slope[cell[i]];
    offset[i] = table->offset[cell[i]];
  }
}

// Indices of one chunk's rotated values: each real index plus a uniform number, rounded down.
static void round_chunk(const struct codec_table *table, const float *v, float to_grid, const float *uniform,
                        uint8_t *indices) {
  float w[VALUES], slope[VALUES], offset[VALUES];
  int32_t cell[VALUES];
  const float top = table->granularity, middle = table->middle;
  for (int i = 0; i < VALUES; i++) {
    float position = v[i] * to_grid + middle;
    position = position > 0 ? position : 0;
    position = position < top ? position : top;
    w[i] = position;
    cell[i] = (int32_t)position;
  }
  (top < LOOK_UP ? look_up_cells : look_up_many_cells)(table, cell, slope, offset);
  for (int i = 0; i < VALUES; i++) {
    const float position = w[i] * slope[i] + offset[i];
    indices[i] = (uint8_t)(int32_t)(position + uniform[i]);
  }
}

static void encode_chunk(const struct codec_table *table, const float *v, float to_grid, uint64_t key,
                         uint64_t first_value, uint8_t *out) {
  float uniform[VALUES];
  uint8_t indices[VALUES];
  draw(key, first_value / DRAWS, uniform);
  round_chunk(table, v, to_grid, uniform, indices);
  planes_pack(indices, out);
}

static void rotate(const struct codec_blocks *at, uint64_t block, const float *x, uint64_t present, float *v) {
  const uint64_t d = at->block_values, key = fold_key(at->sign_key, at->first_block + block);
  if (present < d) {
    memcpy(v, x, present * sizeof *x);
    memset(v + present, 0, (d - present) * sizeof *v);
    x = v;
  }
  flip(x, NULL, v, d, key, at->half_scale);
  codec_hadamard(v, d);
}

void codec_thc_encode(const struct codec_blocks *at, const struct codec_table *table, uint64_t rounding_key,
                      uint64_t first_value, const float *x, uint64_t present, const float *to_grid, uint8_t *out,
                      int64_t stride, float *work) {
  const uint64_t d = at->block_values;
  for (uint64_t block = 0; block < at->blocks; block++) {
    const uint64_t start = block * d;
    rotate(at, block, x + smaller(start, present), smaller(d, present - smaller(start, present)), work);
    for (uint64_t i = 0; i < d; i += VALUES, out += stride)
      encode_chunk(table, work + i, to_grid[block], rounding_key, first_value + start + i, out);
  }
}

void codec_largest_sums(const uint8_t *words, int64_t stride, uint64_t chunks, uint8_t *largest) {
  for (uint64_t chunk = 0; chunk < chunks; chunk++, words += stride) largest[chunk] = planes_largest(words);
}

// Rotates a block back and writes its first `present` values to target; with `x`, writes x minus them.
static void unrotate(const struct codec_blocks *at, uint64_t block, float *v, const float *x, float *target,
                     uint64_t present) {
  const uint64_t d = at->block_values, key = fold_key(at->sign_key, at->first_block + block);
  codec_hadamard(v, d);
  if (present == d) {
    flip(v, x, target, d, key, at->back_scale);
    return;
  }
  flip(v, NULL, v, d, key, at->back_scale);
  for (uint64_t i = 0; i < present; i++) target[i] = x ? x[i] - v[i] : v[i];
}

void codec_thc_decode(const struct codec_blocks *at, const uint8_t *words, int64_t stride, const float *middle,
                      const float *from_grid, float *target, uint64_t present, float *work) {
  const uint64_t d = at->block_values;
  for (uint64_t block = 0; block < at->blocks; block++) {
    for (uint64_t i = 0; i < d; i += VALUES, words += stride, middle++, from_grid++) {
      uint8_t sums[VALUES];
      planes_unpack(words, CODEC_SUM_PLANES, sums);
      const float less = *middle, factor = *from_grid;
      for (int j = 0; j < VALUES; j++) work[i + (uint64_t)j] = ((float)sums[j] - less) * factor;
    }
    const uint64_t start = smaller(block * d, present);
    unrotate(at, block, work, NULL, target + start, smaller(d, present - start));
  }
}

// What one chunk's indices stand for.
static void put_levels(const struct codec_table *table, const uint8_t *indices, float from_grid, float *v) {
  float levels[LOOK_UP];
  int32_t index[VALUES];
  for (int z = 0; z < LOOK_UP; z++) levels[z] = table->levels[z] * from_grid;
  for (int i = 0; i < VALUES; i++) index[i] = indices[i];
  for (int i = 0; i < VALUES; i += WIDTH) store(v + i, look_up(levels, load_int(index + i)));
}

void codec_thc_residual(const struct codec_blocks *at, const struct codec_table *table, const uint8_t *words,
                        int64_t stride, const float *from_grid, const float *x, float *target, uint64_t present,
                        float *work) {
  const uint64_t d = at->block_values;
  for (uint64_t block = 0; block < at->blocks; block++) {
    for (uint64_t i = 0; i < d; i += VALUES, words += stride, from_grid++) {
      uint8_t indices[VALUES];
      planes_unpack(words, CODEC_INDEX_PLANES, indices);
      put_levels(table, indices, *from_grid, work + i);
    }
    const uint64_t start = smaller(block * d, present);
    unrotate(at, block, work, x + start, target + start, smaller(d, present - start));
  }
}
