// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Fixed point, a chunk of 256 values at a time. The operations and their order are those of sumwire.codec.sum32, in
// float64. A power of two comes as two factors, each of which float64 holds.
#include <string.h>

#include "codec.h"
#include "magnitudes.h"
#include "threads.h"

enum { VALUES = CODEC_SUM32_VALUES };

// The exponent of frexp for the bits of a float above 0.
static int32_t exponent_of(uint32_t bits) {
  const int32_t normal = (int32_t)(bits >> 23);
  return normal ? normal - 126 : 32 - __builtin_clz(bits) - 149;
}

void codec_sum32_exponents(const float *x, uint64_t length, uint32_t bias, uint32_t *exponents) {
  for (uint64_t start = 0; start < length; start += VALUES) {
    const uint32_t largest = largest_of(x + start, smaller(VALUES, length - start));
    *exponents++ = largest >= INFINITE ? CODEC_NOT_FINITE : largest ? bias + (uint32_t)exponent_of(largest) : 0;
  }
}

// x in units of fixed point, rounded to whole numbers and kept within +-most.
static void round_chunk(const float *x, const double *to_units, double most, int32_t *units) {
  const double first = to_units[0], second = to_units[1];
  for (int i = 0; i < VALUES; i++) {
    double fraction = (double)x[i] * first * second;
    fraction = fraction < -most ? -most : fraction;
    fraction = fraction > most ? most : fraction;
    // Adding 1.5 x 2**52 rounds to a whole number, to even, and leaves it in the low bits.
    fraction += 0x1.8p52;
    int64_t bits;
    memcpy(&bits, &fraction, sizeof bits);
    units[i] = (int32_t)bits;
  }
}

struct fixed {
  const float *x;
  uint64_t length;
  const double *to_units, *from_units;
  double most;
  uint8_t *out;
  const uint8_t *words;
  int64_t stride;
  const uint8_t *included;
  const int64_t *divisors;
  float *target;
};

// The values of a chunk, in `padded` with zeros after them if the tensor ends within it.
static const float *values_of(const struct fixed *job, uint64_t chunk, float *padded) {
  const uint64_t start = chunk * VALUES;
  if (start + VALUES <= job->length) return job->x + start;
  memset(padded, 0, VALUES * sizeof *padded);
  memcpy(padded, job->x + start, (job->length - start) * sizeof *padded);
  return padded;
}

static void encode_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct fixed *job = context;
  for (uint64_t chunk = first; chunk < last; chunk++) {
    float padded[VALUES];
    int32_t units[VALUES];
    round_chunk(values_of(job, chunk, padded), job->to_units + 2 * chunk, job->most, units);
    for (int i = 0; i < VALUES; i++) units[i] = (int32_t)__builtin_bswap32((uint32_t)units[i]);
    memcpy(job->out + (int64_t)chunk * job->stride, units, sizeof units);
  }
}

void codec_sum32_encode(const float *x, uint64_t length, const double *to_units, double most, uint8_t *out,
                        int64_t stride, uint64_t threads) {
  const struct fixed job = {.x = x, .length = length, .to_units = to_units, .most = most, .out = out, .stride = stride};
  codec_share(encode_chunks, &job, (length + VALUES - 1) / VALUES, threads);
}

static void put(const struct fixed *job, uint64_t chunk, const float *values) {
  const uint64_t start = chunk * VALUES;
  memcpy(job->target + start, values, smaller(VALUES, job->length - start) * sizeof *values);
}

static void decode_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct fixed *job = context;
  for (uint64_t chunk = first; chunk < last; chunk++) {
    uint32_t words[VALUES];
    float values[VALUES];
    memcpy(words, job->words + (int64_t)chunk * job->stride, sizeof words);
    const double one = job->from_units[2 * chunk], other = job->from_units[2 * chunk + 1];
    const int64_t divisor = job->divisors[chunk];
    // The inverse of a power of two is exact, and multiplying is faster.
    if ((divisor & (divisor - 1)) == 0) {
      const double inverse = 1.0 / (double)divisor;
      for (int i = 0; i < VALUES; i++)
        values[i] = (float)((double)(int32_t)__builtin_bswap32(words[i]) * inverse * one * other);
    } else {
      const double by = (double)divisor;
      for (int i = 0; i < VALUES; i++)
        values[i] = (float)((double)(int32_t)__builtin_bswap32(words[i]) / by * one * other);
    }
    put(job, chunk, values);
  }
}

void codec_sum32_decode(const uint8_t *words, int64_t stride, const int64_t *divisors, const double *from_units,
                        float *target, uint64_t length, uint64_t threads) {
  const struct fixed job = {.words = words, .stride = stride, .divisors = divisors, .from_units = from_units,
                            .target = target, .length = length};
  codec_share(decode_chunks, &job, (length + VALUES - 1) / VALUES, threads);
}

static void residual_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct fixed *job = context;
  for (uint64_t chunk = first; chunk < last; chunk++) {
    float padded[VALUES], left[VALUES];
    int32_t units[VALUES];
    const float *x = values_of(job, chunk, padded);
    round_chunk(x, job->to_units + 2 * chunk, job->most, units);
    const double one = job->from_units[2 * chunk], other = job->from_units[2 * chunk + 1];
    const double sent = job->included == NULL || job->included[chunk] ? 1.0 : 0.0;
    for (int i = 0; i < VALUES; i++) left[i] = (float)((double)x[i] - (double)units[i] * sent * one * other);
    put(job, chunk, left);
  }
}

void codec_sum32_residual(const float *x, uint64_t length, const double *to_units, const double *from_units,
                          double most, const uint8_t *included, float *target, uint64_t threads) {
  const struct fixed job = {.x = x, .length = length, .to_units = to_units, .from_units = from_units, .most = most,
                            .included = included, .target = target};
  codec_share(residual_chunks, &job, (length + VALUES - 1) / VALUES, threads);
}
