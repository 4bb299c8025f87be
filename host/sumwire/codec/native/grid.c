// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Grid points that travel themselves, several to an element of 32 bits. Blocks have at most PASS values. The operations
// and their order are those of sumwire.codec.thc_forms.GridForm.
#include "taken.h"
#include "threads.h"

enum { ELEMENTS = CODEC_SUM32_VALUES };

struct pointing {
  const struct codec_blocks *at;
  uint64_t rounding_key, flipped, first_value;
  const float *x;
  uint64_t present;
  const float *to_grid;
  float granularity;
  uint8_t *points;
};

// The grid points of RUN rotated values, of which `first` is the first in the rounding stream.
INLINE void point_run(const struct pointing *job, const vector *r, float to_grid, uint64_t first, uint8_t *points) {
  const vector middle = all(job->granularity / 2), top = all(job->granularity);
  UNROLL for (int i = 0; i < RADIX; i += GROUP_VECTORS) {
    uint_vector drawn[GROUP_VECTORS];
    draw(job->rounding_key, (uint32_t)job->flipped, first + (uint64_t)i * WIDTH, drawn);
    UNROLL for (int j = 0; j < (int)GROUP_VECTORS; j++) {
      vector w = clamped_sum(r[i + j] * to_grid, middle, top);
      w += (__builtin_convertvector(drawn[j], vector) + 0.5f) * 0x1p-16f;
      int_vector point = __builtin_convertvector(w, int_vector);
      // Adding may round 255.99.. up to 256.
      const int_vector most = __builtin_convertvector(top, int_vector), above = point > most;
      point = (point & ~above) | (most & above);
      const byte_row bytes = __builtin_convertvector(point, byte_row);
      memcpy(points + (i + j) * WIDTH, &bytes, sizeof bytes);
    }
  }
}

static void point_blocks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct pointing *job = context;
  const uint64_t d = job->at->block_values;
  float v[PASS] __attribute__((aligned(64)));
  for (uint64_t block = first; block < last; block++) {
    const uint64_t start = block * d, here = present_of(job->at, start, job->present);
    take(padded(job->x + start, here, v, d), block_key(job->at, block), 0, v, d);
    for (size_t i = 0; i < d; i += RUN) {
      vector r[RADIX];
      load_rows(r, v + i, WIDTH, RADIX);
      run_steps(r, DOWN);
      point_run(job, r, job->to_grid[block], job->first_value + start + i, job->points + start + i);
    }
  }
}

void codec_grid_points(const struct codec_blocks *at, uint64_t rounding_key, uint64_t flipped, uint64_t first_value,
                       const float *x, uint64_t present, const float *to_grid, float granularity, uint8_t *points) {
  const struct pointing job = {at, rounding_key, flipped, first_value, x, present, to_grid, granularity, points};
  codec_share(point_blocks, &job, at->blocks, at->threads);
}

struct returning {
  const struct codec_blocks *at;
  const float *values, *cells;
  float *target;
  uint64_t present;
};

static void return_blocks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct returning *job = context;
  const uint64_t d = job->at->block_values;
  const int past = goes_past(job->target, job->at->tensor_values);
  float v[PASS] __attribute__((aligned(64)));
  for (uint64_t block = first; block < last; block++) {
    const uint64_t start = block * d, here = present_of(job->at, start, job->present);
    const vector cell = all(job->cells[block]);
    for (size_t i = 0; i < d; i += RUN) {
      vector r[RADIX];
      load_rows(r, job->values + start + i, WIDTH, RADIX);
      UNROLL for (int j = 0; j < RADIX; j++) r[j] *= cell;
      run_steps(r, UP);
      store_rows(r, v + i, WIDTH, RADIX);
    }
    // The tensor may end within the block.
    float *whole = here == d ? job->target + start : v;
    give_back((struct back){past && here == d ? PAST : PLAIN, NULL, whole}, block_key(job->at, block), v, d);
    if (here < d) memcpy(job->target + start, v, here * sizeof *v);
  }
  if (past) end_streams();
}

void codec_grid_return(const struct codec_blocks *at, const float *values, const float *cells, float *target,
                       uint64_t present) {
  const struct returning job = {at, values, cells, target, present};
  codec_share(return_blocks, &job, at->blocks, at->threads);
}

struct fields {
  uint64_t number, bits;
  const uint8_t *points;
  uint64_t present;
  uint8_t *out;
  const uint8_t *words;
  int64_t stride;
  const float *middle, *shares;
  float *values;
};

static void pack_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct fields *job = context;
  const uint64_t in_chunk = job->number * ELEMENTS;
  for (uint64_t chunk = first; chunk < last; chunk++) {
    uint32_t elements[ELEMENTS] = {0};
    for (uint64_t field = 0; field < job->number; field++) {
      const uint64_t start = chunk * in_chunk + field * ELEMENTS;
      const uint64_t here = start < job->present ? smaller(ELEMENTS, job->present - start) : 0;
      const uint8_t *points = job->points + start;
      for (uint64_t i = 0; i < here; i++) elements[i] |= (uint32_t)points[i] << field * job->bits;
    }
    for (int i = 0; i < ELEMENTS; i++) elements[i] = __builtin_bswap32(elements[i]);
    memcpy(job->out + (int64_t)chunk * job->stride, elements, sizeof elements);
  }
}

void codec_fields_pack(const uint8_t *points, uint64_t present, uint64_t number, uint64_t bits, uint8_t *out,
                       int64_t stride, uint64_t chunks, uint64_t threads) {
  const struct fields job = {
      .number = number, .bits = bits, .points = points, .present = present, .out = out, .stride = stride};
  codec_share(pack_chunks, &job, chunks, threads);
}

static void unpack_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct fields *job = context;
  const uint32_t most = ((uint32_t)1 << job->bits) - 1;
  for (uint64_t chunk = first; chunk < last; chunk++) {
    uint32_t elements[ELEMENTS];
    memcpy(elements, job->words + (int64_t)chunk * job->stride, sizeof elements);
    const float middle = job->middle[chunk], share = job->shares[chunk];
    for (int i = 0; i < ELEMENTS; i++) elements[i] = __builtin_bswap32(elements[i]);
    for (uint64_t field = 0; field < job->number; field++) {
      float *values = job->values + (chunk * job->number + field) * ELEMENTS;
      for (int i = 0; i < ELEMENTS; i++)
        values[i] = ((float)(int32_t)(elements[i] >> field * job->bits & most) - middle) * share;
    }
  }
}

void codec_fields_values(const uint8_t *words, int64_t stride, uint64_t number, uint64_t bits, const float *middle,
                         const float *shares, float *values, uint64_t chunks, uint64_t threads) {
  const struct fields job = {.number = number, .bits = bits, .words = words, .stride = stride, .middle = middle,
                             .shares = shares, .values = values};
  codec_share(unpack_chunks, &job, chunks, threads);
}
