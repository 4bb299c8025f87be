// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// THC's way to the wire, one rotation block at a time. The values that rounding leaves out are rotated back while the
// block is in the first-level cache. The operations and their order are those of sumwire.codec.thc_forms.
#include "magnitudes.h"
#include "taken.h"
#include "threads.h"

enum {
  LEVELS = 1 << CODEC_INDEX_PLANES,
  // Vectors that are rounded together: what one draw serves, or one packing takes.
  TOGETHER = (int)GROUP_VECTORS > (int)PACKED_VECTORS ? (int)GROUP_VECTORS : (int)PACKED_VECTORS
};

// The tensor's arrays, for the blocks that a thread takes.
struct encoding {
  const struct codec_blocks *at;
  const struct codec_table *table;
  uint64_t rounding_key, flipped, first_value;
  const float *x;
  uint64_t present;
  const float *to_grid;
  uint8_t *out;
  int64_t stride;
  const float *from_grid;
  float *left;  // or NULL
};

// What rounding needs of one block. The first cells' columns lie here, so that no store can change them.
struct grid {
  const struct codec_table *table;
  float slope[LOOK_UP], offset[LOOK_UP], levels[LEVELS], values[LEVELS];
  float granularity, middle, to_grid;
  uint64_t rounding_key, flipped, first_value;
  uint8_t *out;
  int64_t stride;
  // By chunk, or NULL if nothing is rotated back.
  const float *from_grid;
};

// The index of each value in bits 16 to 19: its real index in fixed point plus a random number, rounded down.
INLINE uint_vector rounded(const struct grid *grid, vector v, uint_vector drawn, int cells) {
  const vector w = clamped_sum(v * grid->to_grid, all(grid->middle), all(grid->granularity));
  const int_vector cell = __builtin_convertvector(w, int_vector);
  const vector slope = look_up_of(cells ? grid->slope : grid->table->slope, cell, cells);
  const vector offset = look_up_of(cells ? grid->offset : grid->table->offset, cell, cells);
  const vector position = w * slope + offset;
  // At 2**23 a float's last bit is 1, so adding that rounds to a whole number and leaves it in the low bits.
  return (uint_vector)(position + 0x1p23f) + drawn;
}

// What indices stand for, a byte for each value.
INLINE void put_values(const float *values, const uint_vector *index, uint8_t *to) {
  UNROLL for (int i = 0; i < PACKED_VECTORS; i++) {
    const vector value = look_up_16(values, (int_vector)(index[i] >> 16));
    const byte_row row = __builtin_convertvector(__builtin_convertvector(value, int_vector), byte_row);
    memcpy(to + i * WIDTH, &row, sizeof row);
  }
}

// Rounds the RUN rotated values at `at` of the block. If `leaving`, r becomes what their indices stand for.
INLINE void round_run(const struct grid *grid, vector *r, uint64_t at, int cells, int lanes, int leaving) {
  uint8_t *words = grid->out + (int64_t)(at / CHUNK) * grid->stride;
  UNROLL for (int i = 0; i < RADIX; i += TOGETHER) {
    uint_vector index[TOGETHER];
    UNROLL for (int j = 0; j < TOGETHER; j += GROUP_VECTORS)
      draw(grid->rounding_key, (uint32_t)grid->flipped, grid->first_value + at + (uint64_t)(i + j) * WIDTH, index + j);
    UNROLL for (int j = 0; j < TOGETHER; j++) index[j] = rounded(grid, r[i + j], index[j], cells);
    UNROLL for (int j = 0; j < TOGETHER; j += PACKED_VECTORS) {
      const size_t place = at % CHUNK + (size_t)(i + j) * WIDTH;
      if (lanes) put_values(grid->values, index + j, words + place);
      else pack_indices(index + j, words + place / 8);
    }
    if (!leaving) continue;
    const vector unit = all(grid->from_grid[at / CHUNK]);
    UNROLL for (int j = 0; j < TOGETHER; j++)
      r[i + j] = look_up_16(grid->levels, (int_vector)(index[j] >> 16)) * unit;
  }
}

// The runs of d values at v: rotated if they are not yet, rounded, and if `leaving` rotated back. `next`: values that
// are needed soon, or NULL.
INLINE void round_runs(const struct grid *grid, float *v, size_t d, int rotated, const float *next, int cells,
                       int lanes, int leaving) {
  for (size_t i = 0; i < d; i += RUN) {
    vector r[RADIX];
    load_rows(r, v + i, WIDTH, RADIX);
    // The first pass reads rows in turn, which no prefetching foresees. The first-level cache is full.
    if (next)
      UNROLL for (int j = 0; j < RUN; j += LINE) __builtin_prefetch(next + i + j, 0, 2);
    if (!rotated) run_steps(r, DOWN);
    round_run(grid, r, i, cells, lanes, leaving);
    if (!leaving) continue;
    run_steps(r, UP);
    store_rows(r, v + i, WIDTH, RADIX);
  }
}

static void rotate_runs(float *v, size_t d) {
  for (size_t i = 0; i < d; i += RUN) {
    vector r[RADIX];
    load_rows(r, v + i, WIDTH, RADIX);
    run_steps(r, DOWN);
    store_rows(r, v + i, WIDTH, RADIX);
  }
}

// H D x of a longer block.
static void take_long(const float *x, uint64_t key, float *v, size_t d) {
  for (size_t i = 0; i < d; i += LOW) {
    take(x + i, key, i, v + i, LOW);
    rotate_runs(v + i, LOW);
  }
  wide_steps_down(v, d, LOW);
}

struct ranging {
  const struct codec_blocks *at;
  const float *x;
  uint64_t present;
  float *ranges;
};

static float largest_magnitude(const float *v, size_t d) {
  const uint32_t bits = largest_of(v, d);
  float largest;
  memcpy(&largest, &bits, sizeof largest);
  return largest;
}

static void range_blocks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  const struct ranging *job = context;
  const uint64_t d = job->at->block_values;
  float own[PASS] __attribute__((aligned(64)));
  float *v = room(job->at, own, thread);
  for (uint64_t block = first; block < last; block++) {
    const uint64_t start = block * d, here = present_of(job->at, start, job->present);
    const float *x = padded(job->x + start, here, v, d);
    if (d <= PASS) {
      take(x, block_key(job->at, block), 0, v, d);
      rotate_runs(v, d);
    } else {
      take_long(x, block_key(job->at, block), v, d);
    }
    job->ranges[block] = largest_magnitude(v, d);
  }
}

void codec_thc_ranges(const struct codec_blocks *at, const float *x, uint64_t present, float *ranges) {
  const struct ranging job = {at, x, present, ranges};
  codec_share(range_blocks, &job, at->blocks, at->threads);
}

// What a block's values leave out, from v. The tensor may end within the block.
static void leave(const struct encoding *job, uint64_t key, uint64_t start, uint64_t here, float *v, int past) {
  const uint64_t d = job->at->block_values;
  if (here == d) {
    give_back((struct back){past ? LEFT_PAST : LEFT, job->x + start, job->left + start}, key, v, d);
    return;
  }
  give_back((struct back){PLAIN, NULL, v}, key, v, d);
  for (uint64_t i = start; i < start + here; i++) job->left[i] = job->x[i] - v[i - start];
}

INLINE void encode_blocks(const struct encoding *job, unsigned thread, uint64_t first, uint64_t last, int cells,
                          int lanes, int leaving) {
  const uint64_t d = job->at->block_values;
  const int past = leaving && goes_past(job->left, job->at->tensor_values);
  float own[PASS] __attribute__((aligned(64)));
  float *v = room(job->at, own, thread);
  struct grid grid = {.table = job->table, .granularity = job->table->granularity, .middle = job->table->middle,
                      .rounding_key = job->rounding_key, .flipped = job->flipped, .stride = job->stride};
  memcpy(grid.slope, job->table->slope, sizeof grid.slope);
  memcpy(grid.offset, job->table->offset, sizeof grid.offset);
  memcpy(grid.levels, job->table->levels, sizeof grid.levels);
  memcpy(grid.values, job->table->values, sizeof grid.values);
  for (uint64_t block = first; block < last; block++) {
    const uint64_t start = block * d, here = present_of(job->at, start, job->present);
    const uint64_t key = block_key(job->at, block), chunk = start / CHUNK;
    const float *x = padded(job->x + start, here, v, d);
    grid.to_grid = job->to_grid[block];
    grid.first_value = job->first_value + start;
    grid.out = job->out + (int64_t)chunk * job->stride;
    if (leaving) grid.from_grid = job->from_grid + chunk;
    if (d <= PASS) {
      take(x, key, 0, v, d);
      round_runs(&grid, v, d, 0, block + 1 < last ? job->x + start + d : NULL, cells, lanes, leaving);
    } else {
      take_long(x, key, v, d);
      round_runs(&grid, v, d, 1, NULL, cells, lanes, leaving);
    }
    if (leaving) leave(job, key, start, here, v, past);
  }
  if (past) end_streams();
}

INLINE void encode_either(const struct encoding *job, unsigned thread, uint64_t first, uint64_t last, int cells,
                          int leaving) {
  if (job->at->lanes) encode_blocks(job, thread, first, last, cells, 1, leaving);
  else encode_blocks(job, thread, first, last, cells, 0, leaving);
}

// For tables of so many cells at most, or of any number (0).
#define FOR(name, cells)                                                                           \
  static void encode_##name(const void *context, unsigned thread, uint64_t first, uint64_t last) { \
    encode_either(context, thread, first, last, cells, 0);                                         \
  }                                                                                                \
  static void leave_##name(const void *context, unsigned thread, uint64_t first, uint64_t last) {  \
    encode_either(context, thread, first, last, cells, 1);                                         \
  }

FOR(near, NEAR)
FOR(wide, 2 * NEAR)
FOR(wider, 4 * NEAR)
FOR(any, 0)

void codec_thc_encode(const struct codec_blocks *at, const struct codec_table *table, uint64_t rounding_key,
                      uint64_t flipped, uint64_t first_value, const float *x, uint64_t present, const float *to_grid, uint8_t *out,
                      int64_t stride, const float *from_grid, float *left) {
  static const codec_items encoding_for[] = {encode_near, encode_wide, encode_wider, encode_any},
                           leaving_for[] = {leave_near, leave_wide, leave_wider, leave_any};
  const struct encoding job = {at,  table,  rounding_key, flipped, first_value, x,   present, to_grid,
                               out, stride, from_grid,    left};
  const float g = table->granularity;
  const int size = g < NEAR ? 0 : g < 2 * NEAR ? 1 : g < 4 * NEAR ? 2 : 3;
  codec_share((left ? leaving_for : encoding_for)[size], &job, at->blocks, at->threads);
}
