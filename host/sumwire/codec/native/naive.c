// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Naive quantization, a chunk at a time. The operations and their order are those of sumwire.codec.naive.
#include "codec.h"
#include "magnitudes.h"
#include "planes.h"
#include "threads.h"

enum { GROUP = CODEC_NAIVE_GROUP, GROUPS = CHUNK / GROUP, PACKED = PACKED_VECTORS * WIDTH };

void codec_naive_largest(const float *x, uint64_t length, uint32_t *largest) {
  for (uint64_t start = 0; start < length; start += GROUP) {
    const uint32_t found = largest_of(x + start, smaller(GROUP, length - start));
    *largest++ = found >= INFINITE ? CODEC_NOT_FINITE : found;
  }
}

struct naive {
  const float *x;
  uint64_t length;
  // By group: what a step of an index adds to a value; 0 for a group of zeros.
  const float *steps;
  float most;
  uint8_t *out;
  const uint8_t *words;
  int64_t stride;
  const float *middle, *shares;
  const uint8_t *included;
  float *target;
};

static uint64_t present_in(const struct naive *job, uint64_t chunk) {
  return smaller(CHUNK, job->length - chunk * CHUNK);
}

// The values of a chunk, in `padded` with zeros after them if the tensor ends within it.
static const float *values_of(const struct naive *job, uint64_t chunk, float *padded) {
  const uint64_t here = present_in(job, chunk);
  if (here == CHUNK) return job->x + chunk * CHUNK;
  memset(padded, 0, CHUNK * sizeof *padded);
  memcpy(padded, job->x + chunk * CHUNK, here * sizeof *padded);
  return padded;
}

// v in steps, rounded to whole numbers, to even, and kept within +-most; 0 for NaN.
INLINE vector in_steps(vector v, float step, float most) {
  if (!(step > 0)) return all(0);
  v /= step;
  const int_vector above = v > most, below = v < -most, number = v == v;
  v = (vector)(((int_vector)v & ~above & ~below & number) | ((int_vector)all(most) & above) |
               ((int_vector)all(-most) & below));
  // At 1.5 x 2**23 a float's last bit is 1.
  return (v + 0x1.8p23f) - 0x1.8p23f;
}

static void encode_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct naive *job = context;
  for (uint64_t chunk = first; chunk < last; chunk++) {
    float padded[CHUNK];
    const float *x = values_of(job, chunk, padded);
    uint8_t *words = job->out + (int64_t)chunk * job->stride;
    for (uint64_t at = 0; at < CHUNK; at += PACKED) {
      const float step = job->steps[chunk * GROUPS + at / GROUP];
      uint_vector index[PACKED_VECTORS];
      UNROLL for (int i = 0; i < PACKED_VECTORS; i++) {
        const vector q = in_steps(load(x + at + (uint64_t)i * WIDTH), step, job->most);
        index[i] = (uint_vector)__builtin_convertvector(q + job->most, int_vector) << 16;
      }
      pack_indices(index, words + at / 8);
    }
  }
}

void codec_naive_encode(const float *x, uint64_t length, const float *steps, float most, uint8_t *out, int64_t stride,
                        uint64_t threads) {
  const struct naive job = {.x = x, .length = length, .steps = steps, .most = most, .out = out, .stride = stride};
  codec_share(encode_chunks, &job, (length + CHUNK - 1) / CHUNK, threads);
}

static void put(const struct naive *job, uint64_t chunk, const float *values) {
  memcpy(job->target + chunk * CHUNK, values, present_in(job, chunk) * sizeof *values);
}

static void decode_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct naive *job = context;
  for (uint64_t chunk = first; chunk < last; chunk++) {
    uint8_t bytes[CHUNK] __attribute__((aligned(64)));
    float values[CHUNK];
    planes_unpack_sums(job->words + (int64_t)chunk * job->stride, bytes);
    for (uint64_t at = 0; at < CHUNK; at += WIDTH) {
      const vector sum = __builtin_convertvector(load_sums(bytes, at), vector);
      store(values + at, (sum - job->middle[chunk]) * job->shares[chunk] * job->steps[chunk * GROUPS + at / GROUP]);
    }
    put(job, chunk, values);
  }
}

void codec_naive_decode(const uint8_t *words, int64_t stride, const float *middle, const float *shares,
                        const float *steps, float *target, uint64_t length, uint64_t threads) {
  const struct naive job = {.words = words, .stride = stride, .middle = middle, .shares = shares, .steps = steps,
                            .target = target, .length = length};
  codec_share(decode_chunks, &job, (length + CHUNK - 1) / CHUNK, threads);
}

static void residual_chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct naive *job = context;
  const int_vector infinite = {0};
  for (uint64_t chunk = first; chunk < last; chunk++) {
    float padded[CHUNK], left[CHUNK];
    const float *x = values_of(job, chunk, padded);
    const int sent = job->included == NULL || job->included[chunk];
    for (uint64_t at = 0; at < CHUNK; at += WIDTH) {
      const float step = sent ? job->steps[chunk * GROUPS + at / GROUP] : 0;
      const vector v = load(x + at);
      const int_vector finite = ((int_vector)v & (int32_t)MAGNITUDE) < infinite + (int32_t)INFINITE;
      store(left + at, (vector)((int_vector)v & finite) - in_steps(v, step, job->most) * step);
    }
    put(job, chunk, left);
  }
}

void codec_naive_residual(const float *x, uint64_t length, const float *steps, float most, const uint8_t *included,
                          float *target, uint64_t threads) {
  const struct naive job = {.x = x, .length = length, .steps = steps, .most = most, .included = included,
                            .target = target};
  codec_share(residual_chunks, &job, (length + CHUNK - 1) / CHUNK, threads);
}
