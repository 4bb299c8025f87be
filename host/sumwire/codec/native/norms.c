// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Sums over chunks, by halves: value i of the second half is added to value i of the first, until one value is left.
// The order is fixed (sumwire.codec.norms), so that torch and these kernels give equal bits.
#include <math.h>

#include "codec.h"
#include "threads.h"
#include "vectors.h"

enum { VALUES = CODEC_CHUNK_VALUES, HALF = VALUES / 2, QUARTER = VALUES / 4 };

struct squares {
  const float *x, *y;  // y: NULL, or added to x
  uint64_t length;
  float *total, *sums;
  int past;
};

INLINE vector square(const float *x) {
  return load(x) * load(x);
}

INLINE float square_sum(const float *x) {
  vector t[QUARTER / WIDTH];
  for (int i = 0; i < QUARTER / WIDTH; i++) {
    const float *here = x + (size_t)i * WIDTH;
    t[i] = (square(here) + square(here + HALF)) + (square(here + QUARTER) + square(here + HALF + QUARTER));
  }
  for (int half = QUARTER / WIDTH / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) t[i] += t[i + half];
  return add_lanes(t[0]);
}

// x + y of a chunk, to `total` and to `sum`, which stays in the first-level cache. In the order of memory, which
// prefetching follows.
INLINE void add_chunk(const float *x, const float *y, float *total, float *sum, int past) {
  for (int i = 0; i < VALUES; i += WIDTH) {
    const vector here = load(x + i) + load(y + i);
    store(sum + i, here);
    if (past) stream(total + i, here);
    else store(total + i, here);
  }
}

// Of whole chunks first..last-1.
INLINE void square_sums(const struct squares *job, uint64_t first, uint64_t last, int past) {
  float sum[VALUES] __attribute__((aligned(64)));
  for (uint64_t chunk = first; chunk < last; chunk++) {
    const uint64_t at = chunk * VALUES;
    if (job->y) add_chunk(job->x + at, job->y + at, job->total + at, sum, past);
    job->sums[chunk] = square_sum(job->y ? sum : job->x + at);
  }
}

// The tensor's last chunk, which is shorter.
static void last_square_sum(const struct squares *job, uint64_t chunk) {
  float x[VALUES] = {0}, y[VALUES] = {0}, total[VALUES];
  const uint64_t at = chunk * VALUES, size = (job->length - at) * sizeof *x;
  memcpy(x, job->x + at, size);
  if (job->y) memcpy(y, job->y + at, size);
  add_chunk(x, y, total, x, 0);
  job->sums[chunk] = square_sum(x);
  if (job->y) memcpy(job->total + at, total, size);
}

static void chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct squares *job = context;
  const uint64_t whole = job->length / VALUES;
  if (job->past) square_sums(job, first, last < whole ? last : whole, 1);
  else square_sums(job, first, last < whole ? last : whole, 0);
  if (last > whole) last_square_sum(job, whole);
  if (job->past) end_streams();
}

void codec_square_sums(const float *x, uint64_t length, float *sums, uint64_t threads) {
  const struct squares job = {x, NULL, length, NULL, sums, 0};
  codec_share(chunks, &job, (length + VALUES - 1) / VALUES, threads);
}

void codec_add_square_sums(const float *x, const float *y, uint64_t length, float *total, float *sums,
                           uint64_t threads) {
  const struct squares job = {x, y, length, total, sums, goes_past(total, length)};
  codec_share(chunks, &job, (length + VALUES - 1) / VALUES, threads);
}

static inline double wide_square(float x) {
  return (double)x * (double)x;
}

static inline double wide_magnitude(float x) {
  return fabs((double)x);
}

#define SUM_OF(name, TERM)                                                                       \
  static double name##_of_chunk(const float *x) {                                                \
    double t[HALF];                                                                              \
    for (int i = 0; i < HALF; i++) t[i] = TERM(x[i]) + TERM(x[i + HALF]);                        \
    for (int half = HALF / 2; half > 0; half /= 2)                                               \
      for (int i = 0; i < half; i++) t[i] += t[i + half];                                        \
    return t[0];                                                                                 \
  }                                                                                              \
                                                                                                 \
  void name(const float *x, uint64_t length, double *sums) {                                     \
    const uint64_t whole = length / VALUES;                                                      \
    for (uint64_t chunk = 0; chunk < whole; chunk++) sums[chunk] = name##_of_chunk(x + chunk * VALUES); \
    if (whole * VALUES == length) return;                                                        \
    float last[VALUES] = {0};                                                                    \
    memcpy(last, x + whole * VALUES, (length - whole * VALUES) * sizeof *x);                     \
    sums[whole] = name##_of_chunk(last);                                                         \
  }

SUM_OF(codec_wide_square_sums, wide_square)
SUM_OF(codec_magnitude_sums, wide_magnitude)
