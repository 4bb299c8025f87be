// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// THC's way back from the wire, one rotation block at a time. The operations and their order are those of
// sumwire.codec.thc_forms.
#include "blocks.h"
#include "threads.h"

static uint8_t largest_sum(const uint8_t *words, uint64_t lanes) {
  return lanes ? lanes_largest(words) : planes_largest(words);
}

void codec_largest_sums(const uint8_t *words, int64_t stride, uint64_t chunks, uint64_t lanes, uint8_t *largest) {
  for (uint64_t chunk = 0; chunk < chunks; chunk++, words += stride) largest[chunk] = largest_sum(words, lanes);
}

struct decoding {
  const struct codec_blocks *at;
  const uint8_t *words;
  int64_t stride;
  // By chunk: a sum's middle, and the value of a grid cell divided by what the sum is divided by.
  const float *middle, *from_grid;
  float *target;
  uint64_t present;
  // In the place of these two, to be found and checked on the way; else NULL.
  struct checked *checked;
};

struct checked {
  const int64_t *counts;
  int64_t most, granularity, divisor;
  const double *cells;
  _Atomic int unusual;
};

// Whether count and sums of a chunk are as usual, and then its middle and from_grid.
static int check(const struct checked *of, const uint8_t *words, uint64_t lanes, uint64_t chunk, float *middle,
                 float *from_grid) {
  const int64_t count = of->counts[chunk], divisor = of->divisor;
  if (count < 1 || count > of->most || (divisor && count > divisor)) return 0;
  if (largest_sum(words, lanes) > count * of->granularity) return 0;
  *middle = (float)((double)count * ((double)of->granularity / 2));
  *from_grid = (float)(of->cells[chunk] / (double)(divisor ? divisor : count));
  return 1;
}

// The values of a chunk's sums to v, whose runs are rotated back. `bytes`: lanes, or unpacked planes.
INLINE void take_bytes(const uint8_t *bytes, int lanes, float middle, float from_grid, float *v) {
  for (size_t i = 0; i < CHUNK; i += RUN) {
    vector r[RADIX];
    UNROLL for (int j = 0; j < RADIX; j++) {
      const size_t at = i + (size_t)j * WIDTH;
      const vector sum = __builtin_convertvector(lanes ? load_bytes(bytes + at) : load_sums(bytes, at), vector);
      r[j] = (sum - middle) * from_grid;
    }
    run_steps(r, UP);
    store_rows(r, v + i, WIDTH, RADIX);
  }
}

static void take_lanes(const uint8_t *words, float middle, float from_grid, float *v) {
  take_bytes(words, 1, middle, from_grid, v);
}

static void take_planes(const uint8_t *words, float middle, float from_grid, float *v) {
  uint8_t bytes[CHUNK] __attribute__((aligned(64)));
  planes_unpack_sums(words, bytes);
  take_bytes(bytes, 0, middle, from_grid, v);
}

static void decode_blocks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  const struct decoding *job = context;
  const uint64_t d = job->at->block_values;
  const int past = goes_past(job->target, job->at->tensor_values);
  float own[PASS] __attribute__((aligned(64)));
  float *v = room(job->at, own, thread);
  for (uint64_t block = first; block < last; block++) {
    const uint64_t start = block * d, here = present_of(job->at, start, job->present), chunk = start / CHUNK;
    for (uint64_t i = 0; i < d / CHUNK; i++) {
      const uint8_t *words = job->words + (int64_t)(chunk + i) * job->stride;
      float middle, from_grid;
      if (!job->checked) {
        middle = job->middle[chunk + i];
        from_grid = job->from_grid[chunk + i];
      } else if (!check(job->checked, words, job->at->lanes, chunk + i, &middle, &from_grid)) {
        job->checked->unusual = 1;
        return;
      }
      (job->at->lanes ? take_lanes : take_planes)(words, middle, from_grid, v + i * CHUNK);
    }
    // The tensor may end within the block.
    float *whole = here == d ? job->target + start : v;
    give_back((struct back){past && here == d ? PAST : PLAIN, NULL, whole}, block_key(job->at, block), v, d);
    if (here < d) memcpy(job->target + start, v, here * sizeof *v);
  }
  if (past) end_streams();
}

void codec_thc_decode(const struct codec_blocks *at, const uint8_t *words, int64_t stride, const float *middle,
                      const float *from_grid, float *target, uint64_t present) {
  const struct decoding job = {at, words, stride, middle, from_grid, target, present, NULL};
  codec_share(decode_blocks, &job, at->blocks, at->threads);
}

int codec_thc_decode_usual(const struct codec_blocks *at, const uint8_t *words, int64_t stride, const int64_t *counts,
                           int64_t most, int64_t granularity, int64_t divisor, const double *cells, float *target,
                           uint64_t present) {
  struct checked checked = {counts, most, granularity, divisor, cells, 0};
  const struct decoding job = {at, words, stride, NULL, NULL, target, present, &checked};
  codec_share(decode_blocks, &job, at->blocks, at->threads);
  return !checked.unusual;
}
