// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// SIMD vectors of sixteen values. They compile on every machine: the compiler splits them if its registers are narrower.
#pragma once

#include <stdint.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "constants.h"

enum { WIDTH = 16, LOOK_UP = CODEC_LOOK_UP };

typedef float vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t int_vector __attribute__((vector_size(4 * WIDTH)));
typedef uint32_t uint_vector __attribute__((vector_size(4 * WIDTH)));
typedef float unaligned_vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t unaligned_int_vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vector load(const float *from) {
  return *(const unaligned_vector *)from;
}

INLINE int_vector load_int(const int32_t *from) {
  return *(const unaligned_int_vector *)from;
}

INLINE void store(float *to, vector value) {
  *(unaligned_vector *)to = value;
}

// table[index[i]] for every i; the table has LOOK_UP (32) entries. No compiler makes one instruction of the loop.
INLINE vector look_up(const float *table, int_vector index) {
#if defined(__AVX512F__)
  return (vector)_mm512_permutex2var_ps((__m512)load(table), (__m512i)index, (__m512)load(table + WIDTH));
#else
  vector found;
  for (int i = 0; i < WIDTH; i++) found[i] = table[index[i]];
  return found;
#endif
}
