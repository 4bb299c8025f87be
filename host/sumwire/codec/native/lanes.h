// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Sixteen values side by side. Any machine has these types: where it has narrower registers the compiler splits them.
#pragma once

#include <stdint.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "constants.h"

enum { LANES = 16, LOOK_UP = CODEC_LOOK_UP };

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t int_lanes __attribute__((vector_size(4 * LANES)));
typedef uint32_t uint_lanes __attribute__((vector_size(4 * LANES)));
typedef float unaligned_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t unaligned_int_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE lanes load(const float *from) {
  return *(const unaligned_lanes *)from;
}

INLINE int_lanes load_int(const int32_t *from) {
  return *(const unaligned_int_lanes *)from;
}

INLINE void store(float *to, lanes value) {
  *(unaligned_lanes *)to = value;
}

// Entries of a table of LOOK_UP (32), each lane's own. No compiler makes one instruction of the loop.
INLINE lanes look_up(const float *table, int_lanes index) {
#if defined(__AVX512F__)
  return (lanes)_mm512_permutex2var_ps((__m512)load(table), (__m512i)index, (__m512)load(table + LANES));
#else
  lanes found;
  for (int i = 0; i < LANES; i++) found[i] = table[index[i]];
  return found;
#endif
}
