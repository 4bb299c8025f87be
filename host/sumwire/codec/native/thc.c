// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// THC, one rotation block at a time. A transform reads its values where they come from (tensor or planes) in its first
// pass and hands them on in its last, so between the two a block is in registers and the first-level cache. The
// operations and their order are those of sumwire.codec.thc_torch.
#include "codec.h"
#include "hadamard.h"
#include "planes.h"
#include "streams.h"
#include "threads.h"

enum {
  PASS = CODEC_PASS_VALUES,
  LOW = PASS / 4,    // values of the first factor of a longer transform
  SIGN_BITS = 64,    // of a word of the sign stream
  LINE = 16,         // values of a line of the caches
  // Values of a tensor that no second-level cache holds.
  STREAMED_VALUES = 1 << 19,
  LEVELS = 1 << CODEC_INDEX_PLANES,
  // Vectors of the last pass that are rounded together: what one draw serves, or one packing takes.
  TOGETHER = (int)GROUP_VECTORS > (int)PACKED_VECTORS ? (int)GROUP_VECTORS : (int)PACKED_VECTORS
};

// Where a transform's values come from, and where they go.
enum source { FLIPPED, SUMS, INDICES };
// ROUNDED_FINE is for tables of more cells than `look_up` takes, STREAMED is SUBTRACTED past the caches.
enum target { KEPT, ROUNDED, ROUNDED_FINE, FLIPPED_BACK, SUBTRACTED, STREAMED };

// What a transform needs of one block, or of a part of it. Chunks are counted from the part's first.
struct part {
  uint64_t signs[PASS / SIGN_BITS];
  const float *x;
  // SUMS and INDICES: one byte for each value, and what makes it a number.
  uint8_t *bytes;
  const float *middle, *from_grid;
  float levels[PASS / CHUNK][LEVELS];
  // Values that the next block is made of, or NULL.
  const float *next;
  // ROUNDED. The first cells' columns lie here, so that they stay in registers: no store can change them.
  const struct codec_table *table;
  float slope[LOOK_UP], offset[LOOK_UP];
  float granularity, grid_middle, to_grid;
  uint64_t rounding_key, first_value;
  uint8_t *out;
  int64_t stride;
  // FLIPPED_BACK and SUBTRACTED.
  float *target;
};

static inline uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

INLINE void put_signs(struct part *part, uint64_t key, uint64_t first, uint64_t count) {
  for (uint64_t i = 0; i < count / SIGN_BITS; i++) part->signs[i] = stream_word(key, first / SIGN_BITS + i);
}

// D v for the vector at `at`.
INLINE vector flipped(const struct part *part, vector v, uint64_t at) {
  return flip(v, (uint32_t)(part->signs[at / SIGN_BITS] >> at % SIGN_BITS));
}

INLINE vector take(const struct part *part, enum source source, uint64_t at) {
  if (source == FLIPPED) return flipped(part, load(part->x + at), at);
  const int_vector number = load_bytes(part->bytes + at);
  if (source == INDICES) return look_up_16(part->levels[at / CHUNK], number);
  return (__builtin_convertvector(number, vector) - part->middle[at / CHUNK]) * part->from_grid[at / CHUNK];
}

INLINE vector look_up_many(const float *column, int_vector cell) {
  vector found;
  for (int i = 0; i < WIDTH; i++) found[i] = column[cell[i]];
  return found;
}

// The index of each value in bits 16 to 19: its real index in fixed point plus a random number, rounded down.
INLINE uint_vector rounded(const struct part *part, vector v, uint_vector drawn, int fine) {
  const vector w = clamp(v * part->to_grid + part->grid_middle, all(part->granularity));
  const int_vector cell = __builtin_convertvector(w, int_vector);
  const vector slope = fine ? look_up_many(part->table->slope, cell) : look_up(part->slope, cell);
  const vector offset = fine ? look_up_many(part->table->offset, cell) : look_up(part->offset, cell);
  const vector position = w * slope + offset;
  // At 2**23 a float's last bit is 1, so adding that rounds to a whole number and leaves it in the low bits.
  return (uint_vector)(position + 0x1p23f) + drawn;
}

INLINE void put_rounded(const struct part *part, const vector *r, uint64_t at, int fine) {
  uint8_t *words = part->out + (int64_t)(at / CHUNK) * part->stride + at % CHUNK / 8;
  UNROLL for (int i = 0; i < RADIX; i += TOGETHER) {
    uint_vector index[TOGETHER];
    UNROLL for (int j = 0; j < TOGETHER; j += GROUP_VECTORS)
      draw(part->rounding_key, part->first_value + at + (uint64_t)(i + j) * WIDTH, index + j);
    UNROLL for (int j = 0; j < TOGETHER; j++) index[j] = rounded(part, r[i + j], index[j], fine);
    UNROLL for (int j = 0; j < TOGETHER; j += PACKED_VECTORS) pack_indices(index + j, words + (i + j) * WIDTH / 8);
  }
}

// Hands on RUN transformed values.
INLINE void put(const struct part *part, enum target target, const vector *r, float *v, uint64_t at) {
  if (target == ROUNDED || target == ROUNDED_FINE) {
    put_rounded(part, r, at, target == ROUNDED_FINE);
    return;
  }
  UNROLL for (int i = 0; i < RADIX; i++) {
    const uint64_t here = at + (uint64_t)i * WIDTH;
    if (target == KEPT) store(v + here, r[i]);
    if (target == FLIPPED_BACK) store(part->target + here, flipped(part, r[i], here));
    if (target != SUBTRACTED && target != STREAMED) continue;
    const vector left = load(part->x + here) - flipped(part, r[i], here);
    if (target == STREAMED) stream(part->target + here, left);
    else store(part->target + here, left);
  }
}

INLINE void first_pass(const struct part *part, enum source source, float *v, size_t stride, int rows) {
  for (size_t column = 0; column < stride; column += WIDTH) {
    vector r[RADIX];
    UNROLL for (int i = 0; i < rows; i++) r[i] = take(part, source, (size_t)i * stride + column);
    steps(r, rows);
    UNROLL for (int i = 0; i < rows; i++) store(v + (size_t)i * stride + column, r[i]);
  }
}

// H of d values, at most PASS.
INLINE void transform(const struct part *part, enum source source, enum target target, float *v, size_t d) {
  const size_t rows = smaller(d / RUN, RADIX);
  if (rows == RADIX) first_pass(part, source, v, d / RADIX, RADIX);
  else if (rows == 8) first_pass(part, source, v, d / 8, 8);
  else first_pass(part, source, v, d / 4, 4);
  for (size_t i = 0; i < d; i += d / rows) wide_steps(v + i, d / rows, RUN);
  for (size_t i = 0; i < d; i += RUN) {
    vector r[RADIX];
    UNROLL for (int j = 0; j < RADIX; j++) r[j] = load(v + i + (size_t)j * WIDTH);
    // The first pass reads rows in turn, which no prefetching foresees.
    if (part->next)
      UNROLL for (int j = 0; j < RUN; j += LINE) __builtin_prefetch(part->next + i + j);
    run_steps(r);
    put(part, target, r, v, i);
  }
}

// Hands on d transformed values at v, at most PASS.
INLINE void put_all(const struct part *part, enum target target, float *v, size_t d) {
  for (size_t i = 0; i < d; i += RUN) {
    vector r[RADIX];
    UNROLL for (int j = 0; j < RADIX; j++) r[j] = load(v + i + (size_t)j * WIDTH);
    put(part, target, r, v, i);
  }
}

// One of the three directions, for the blocks that a thread takes.
struct encoding {
  const struct codec_blocks *at;
  const struct codec_table *table;
  uint64_t rounding_key, first_value;
  const float *x;
  uint64_t present;
  const float *to_grid;
  uint8_t *out;
  int64_t stride;
};

// The present values of a block at x; with zeros after them, in v, if they do not fill it.
static const float *padded(const float *x, uint64_t start, uint64_t present, float *v, uint64_t d) {
  const uint64_t here = smaller(d, present - smaller(start, present));
  if (here == d) return x + start;
  memcpy(v, x + smaller(start, present), here * sizeof *v);
  memset(v + here, 0, (d - here) * sizeof *v);
  return v;
}

static float *room(const struct codec_blocks *at, float *own, unsigned thread) {
  return at->block_values <= PASS ? own : at->work + thread * at->block_values;
}

INLINE void encode_blocks(const struct encoding *job, enum target target, unsigned thread, uint64_t first,
                          uint64_t last) {
  const uint64_t d = job->at->block_values;
  float own[PASS] __attribute__((aligned(64)));
  float *v = room(job->at, own, thread);
  struct part part = {.table = job->table, .granularity = job->table->granularity,
                      .grid_middle = job->table->middle, .rounding_key = job->rounding_key, .stride = job->stride};
  memcpy(part.slope, job->table->slope, sizeof part.slope);
  memcpy(part.offset, job->table->offset, sizeof part.offset);
  for (uint64_t block = first; block < last; block++) {
    const uint64_t start = block * d, key = fold_key(job->at->sign_key, job->at->first_block + block);
    const float *x = padded(job->x, start, job->present, v, d);
    part.to_grid = job->to_grid[block];
    part.first_value = job->first_value + start;
    part.out = job->out + (int64_t)(start / CHUNK) * job->stride;
    if (d <= PASS) {
      part.x = x;
      part.next = block + 1 < last ? job->x + start + d : NULL;
      put_signs(&part, key, 0, d);
      transform(&part, FLIPPED, target, v, d);
      continue;
    }
    for (uint64_t i = 0; i < d; i += LOW) {
      part.x = x + i;
      put_signs(&part, key, i, LOW);
      transform(&part, FLIPPED, KEPT, v + i, LOW);
    }
    wide_steps(v, d, LOW);
    put_all(&part, target, v, d);
  }
}

static void encode_coarse(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  encode_blocks(context, ROUNDED, thread, first, last);
}

static void encode_fine(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  encode_blocks(context, ROUNDED_FINE, thread, first, last);
}

void codec_thc_encode(const struct codec_blocks *at, const struct codec_table *table, uint64_t rounding_key,
                      uint64_t first_value, const float *x, uint64_t present, const float *to_grid, uint8_t *out,
                      int64_t stride) {
  const struct encoding job = {at, table, rounding_key, first_value, x, present, to_grid, out, stride};
  codec_share(table->granularity < LOOK_UP ? encode_coarse : encode_fine, &job, at->blocks, at->threads);
}

void codec_largest_sums(const uint8_t *words, int64_t stride, uint64_t chunks, uint8_t *largest) {
  for (uint64_t chunk = 0; chunk < chunks; chunk++, words += stride) largest[chunk] = planes_largest(words);
}

struct decoding {
  const struct codec_blocks *at;
  const struct codec_table *table;
  const uint8_t *words;
  int64_t stride;
  const float *middle, *from_grid, *x;
  float *target;
  uint64_t present;
};

// The bytes of `count` values from `first` on, and what makes them numbers.
INLINE void put_bytes(const struct decoding *job, struct part *part, enum source source, uint64_t first,
                      uint64_t count) {
  const uint64_t chunk = first / CHUNK;
  part->from_grid = job->from_grid + chunk;
  if (source == SUMS) part->middle = job->middle + chunk;
  for (uint64_t i = 0; i < count / CHUNK; i++) {
    const uint8_t *words = job->words + (int64_t)(chunk + i) * job->stride;
    (source == SUMS ? planes_unpack_sums : planes_unpack_indices)(words, part->bytes + i * CHUNK);
    if (source == SUMS) continue;
    for (int z = 0; z < LEVELS; z++) part->levels[i][z] = job->table->levels[z] * part->from_grid[i];
  }
}

// Writes a block rotated back to its place, or x minus that. The tensor may end within it.
INLINE void put_back(const struct decoding *job, struct part *part, enum source source, enum target target, float *v,
                     uint64_t block) {
  const uint64_t d = job->at->block_values, start = block * d;
  const uint64_t key = fold_key(job->at->sign_key, job->at->first_block + block);
  const uint64_t here = smaller(d, job->present - smaller(start, job->present));
  if (here < d) target = FLIPPED_BACK;
  const int less = target == SUBTRACTED || target == STREAMED;
  float *whole = here < d ? v : job->target + start;
  if (d <= PASS) {
    if (less) part->x = job->x + start;
    part->target = whole;
    put_signs(part, key, 0, d);
    put_bytes(job, part, source, start, d);
    if (target == STREAMED) transform(part, source, STREAMED, v, d);
    else if (target == SUBTRACTED) transform(part, source, SUBTRACTED, v, d);
    else transform(part, source, FLIPPED_BACK, v, d);
  } else {
    for (uint64_t i = 0; i < d; i += LOW) {
      put_bytes(job, part, source, start + i, LOW);
      transform(part, source, KEPT, v + i, LOW);
    }
    wide_steps(v, d, LOW);
    for (uint64_t i = 0; i < d; i += LOW) {
      if (less) part->x = job->x + start + i;
      part->target = whole + i;
      put_signs(part, key, i, LOW);
      if (less) put_all(part, SUBTRACTED, v + i, LOW);
      else put_all(part, FLIPPED_BACK, v + i, LOW);
    }
  }
  for (uint64_t i = 0; here < d && i < here; i++)
    job->target[start + i] = source == INDICES ? job->x[start + i] - v[i] : v[i];
}

static void decode_blocks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  const struct decoding *job = context;
  float own[PASS] __attribute__((aligned(64)));
  uint8_t bytes[PASS];
  struct part part = {.bytes = bytes};
  for (uint64_t block = first; block < last; block++)
    put_back(job, &part, SUMS, FLIPPED_BACK, room(job->at, own, thread), block);
}

void codec_thc_decode(const struct codec_blocks *at, const uint8_t *words, int64_t stride, const float *middle,
                      const float *from_grid, float *target, uint64_t present) {
  const struct decoding job = {at, NULL, words, stride, middle, from_grid, NULL, target, present};
  codec_share(decode_blocks, &job, at->blocks, at->threads);
}

static void residual_blocks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  const struct decoding *job = context;
  float own[PASS] __attribute__((aligned(64)));
  uint8_t bytes[PASS];
  struct part part = {.bytes = bytes};
  // A residual is read in the next step only. A small one may still be in a cache then.
  const int far = job->present >= STREAMED_VALUES && (uintptr_t)job->target % sizeof(vector) == 0;
  for (uint64_t block = first; block < last; block++)
    put_back(job, &part, INDICES, far ? STREAMED : SUBTRACTED, room(job->at, own, thread), block);
  end_streams();
}

void codec_thc_residual(const struct codec_blocks *at, const struct codec_table *table, const uint8_t *words,
                        int64_t stride, const float *from_grid, const float *x, float *target, uint64_t present) {
  const struct decoding job = {at, table, words, stride, NULL, from_grid, x, target, present};
  codec_share(residual_blocks, &job, at->blocks, at->threads);
}
