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
  const float *x, *y;
  uint64_t length;
  float *total, *sums;
};

INLINE vector square(const float *x) {
  return load(x) * load(x);
}

// The sum of squares of a chunk; if `adding`, that of x + y, which goes to `total`.
INLINE float square_sum(const struct squares *job, int adding, uint64_t at) {
  const float *x = job->x + at;
  if (adding) {
    // In the order of memory, which prefetching follows. What it writes is read again from the first-level cache.
    for (int i = 0; i < VALUES; i += WIDTH) store(job->total + at + i, load(x + i) + load(job->y + at + i));
    x = job->total + at;
  }
  vector t[QUARTER / WIDTH];
  for (int i = 0; i < QUARTER / WIDTH; i++) {
    const float *here = x + (size_t)i * WIDTH;
    t[i] = (square(here) + square(here + HALF)) + (square(here + QUARTER) + square(here + HALF + QUARTER));
  }
  for (int half = QUARTER / WIDTH / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) t[i] += t[i + half];
  return add_lanes(t[0]);
}

// Of chunks first..last-1, of which the tensor's last may be shorter.
INLINE void square_sums(struct squares job, int adding, uint64_t first, uint64_t last) {
  const uint64_t whole = job.length / VALUES;
  for (uint64_t chunk = first; chunk < last && chunk < whole; chunk++)
    job.sums[chunk] = square_sum(&job, adding, chunk * VALUES);
  if (last <= whole) return;
  float x[VALUES] = {0}, y[VALUES] = {0}, total[VALUES];
  const size_t size = (job.length - whole * VALUES) * sizeof *x;
  memcpy(x, job.x + whole * VALUES, size);
  if (adding) memcpy(y, job.y + whole * VALUES, size);
  const struct squares padded = {x, y, VALUES, total, NULL};
  job.sums[whole] = square_sum(&padded, adding, 0);
  if (adding) memcpy(job.total + whole * VALUES, total, size);
}

static void plain_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  square_sums(*(const struct squares *)context, 0, first, last);
}

static void added_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  square_sums(*(const struct squares *)context, 1, first, last);
}

void codec_square_sums(const float *x, uint64_t length, float *sums, uint64_t threads) {
  const struct squares job = {x, NULL, length, NULL, sums};
  codec_share(plain_chunks, &job, (length + VALUES - 1) / VALUES, threads);
}

void codec_add_square_sums(const float *x, const float *y, uint64_t length, float *total, float *sums,
                           uint64_t threads) {
  const struct squares job = {x, y, length, total, sums};
  codec_share(added_chunks, &job, (length + VALUES - 1) / VALUES, threads);
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
