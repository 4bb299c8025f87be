// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// SIMD vectors as wide as the machine's registers, and the few operations that compilers make no good instruction of.
// RADIX is the number of vectors that a transform holds in registers: half of them.
#pragma once

#include <stdint.h>
#include <string.h>

#include "constants.h"

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define CODEC_AVX512
#define WIDTH 16
#define WIDTH_BITS 4
#define RADIX 16
#if defined(__GFNI__) && defined(__AVX512VBMI__)
// Instructions for matrices of eight by eight bits, and for any order of bytes.
#define CODEC_MATRICES
#endif
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#define CODEC_AVX2
#define WIDTH 8
#define WIDTH_BITS 3
#define RADIX 8
#include <immintrin.h>
#elif defined(__aarch64__)
#define WIDTH 4
#define WIDTH_BITS 2
#define RADIX 16
#include <arm_neon.h>
#else
#define WIDTH 4
#define WIDTH_BITS 2
#define RADIX 8
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#endif

// FAR_VALUES: of a tensor that no second-level cache holds.
enum { NEAR = 32, LOOK_UP = CODEC_LOOK_UP, FAR_VALUES = 1 << 19 };

typedef float vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t int_vector __attribute__((vector_size(4 * WIDTH)));
typedef uint32_t uint_vector __attribute__((vector_size(4 * WIDTH)));
typedef uint64_t word_vector __attribute__((vector_size(4 * WIDTH)));
typedef double wide_vector __attribute__((vector_size(8 * WIDTH)));
typedef float unaligned_vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef uint8_t byte_row __attribute__((vector_size(WIDTH)));

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

INLINE vector load(const float *from) {
  return *(const unaligned_vector *)from;
}

INLINE void store(float *to, vector value) {
  *(unaligned_vector *)to = value;
}

// Stores past the caches, to a place that is a multiple of a vector's size: what lies there need not be read first.
// `end_streams` comes before other threads read it.
INLINE void stream(float *to, vector value) {
#if defined(CODEC_AVX512)
  _mm512_stream_ps(to, (__m512)value);
#elif defined(CODEC_AVX2)
  _mm256_stream_ps(to, (__m256)value);
#elif defined(__SSE2__)
  _mm_stream_ps(to, (__m128)value);
#else
  store(to, value);
#endif
}

INLINE void end_streams(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Whether what is written to `target` goes past the caches: to write it through them takes longer, and when it is read
// they hold other values.
static inline int goes_past(const float *target, uint64_t tensor_values) {
  return tensor_values >= FAR_VALUES && (uintptr_t)target % sizeof(vector) == 0;
}

INLINE vector all(float value) {
  return (vector){0} + value;
}

// WIDTH bytes as numbers.
INLINE int_vector load_bytes(const uint8_t *from) {
  byte_row row;
  memcpy(&row, from, sizeof row);
  return __builtin_convertvector(row, int_vector);
}

// A vector of ones that the compiler does not see through: it makes plain sums of products with 1.
INLINE vector ones(void) {
  vector one = all(1);
#if defined(CODEC_AVX2) || defined(CODEC_AVX512)
  __asm__("" : "+v"(one));
#endif
  return one;
}

// a b + c, for b of 1 and -1 only: the product is exact, so a fused operation has the same result.
INLINE vector signed_sum(vector a, vector b, vector c) {
#if defined(CODEC_AVX512)
  return (vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(CODEC_AVX2)
  return (vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (vector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

// a, b become a + b and a - b. `one`: ones(). The multipliers, idle otherwise, make one of the two.
INLINE void butterfly(vector *a, vector *b, vector one) {
#if defined(CODEC_AVX512)
  const vector difference = (vector)_mm512_fnmadd_ps((__m512)*b, (__m512)one, (__m512)*a);
#elif defined(CODEC_AVX2)
  const vector difference = (vector)_mm256_fnmadd_ps((__m256)*b, (__m256)one, (__m256)*a);
#else
  (void)one;
  const vector difference = *a - *b;
#endif
  *a += *b;
  *b = difference;
}

// Butterflies between the lanes of a vector whose number differs in one bit, 1 << `step`.
INLINE vector lane_step(vector v, int step) {
#if defined(CODEC_AVX512)
  const __m512 x = (__m512)v;
  switch (step) {
    case 0:
      return signed_sum(v, (vector){1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
                        (vector)_mm512_permute_ps(x, 0xB1));
    case 1:
      return signed_sum(v, (vector){1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
                        (vector)_mm512_permute_ps(x, 0x4E));
    case 2:
      return signed_sum(v, (vector){1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
                        (vector)_mm512_shuffle_f32x4(x, x, 0xB1));
    default:
      return signed_sum(v, (vector){1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1},
                        (vector)_mm512_shuffle_f32x4(x, x, 0x4E));
  }
#elif defined(CODEC_AVX2)
  const __m256 x = (__m256)v;
  switch (step) {
    case 0: return signed_sum(v, (vector){1, -1, 1, -1, 1, -1, 1, -1}, (vector)_mm256_permute_ps(x, 0xB1));
    case 1: return signed_sum(v, (vector){1, 1, -1, -1, 1, 1, -1, -1}, (vector)_mm256_permute_ps(x, 0x4E));
    default: return signed_sum(v, (vector){1, 1, 1, 1, -1, -1, -1, -1}, (vector)_mm256_permute2f128_ps(x, x, 1));
  }
#else
  if (step == 0) return signed_sum(v, (vector){1, -1, 1, -1}, __builtin_shufflevector(v, v, 1, 0, 3, 2));
  return signed_sum(v, (vector){1, 1, -1, -1}, __builtin_shufflevector(v, v, 2, 3, 0, 1));
#endif
}

// The sum of all lanes, by halves.
INLINE float add_lanes(vector v) {
  float lane[WIDTH];
  store(lane, v);
  UNROLL for (int half = WIDTH / 2; half > 0; half /= 2)
    UNROLL for (int i = 0; i < half; i++) lane[i] += lane[i + half];
  return lane[0];
}

// v + middle, but at least 0 and at most `top`, which is twice the middle and above 0.
INLINE vector clamped_sum(vector v, vector middle, vector top) {
#if defined(CODEC_AVX512)
  // Before the sum: v or the middle, whichever is smaller, with the sign of v.
  (void)top;
  enum { SMALLER = 2 };
  return (vector)_mm512_range_ps((__m512)v, (__m512)middle, SMALLER) + middle;
#elif defined(CODEC_AVX2)
  return (vector)_mm256_min_ps(_mm256_max_ps((__m256)(v + middle), _mm256_setzero_ps()), (__m256)top);
#else
  v += middle;
  const int_vector positive = (int_vector)v & (v > 0), below = (vector)positive < top;
  return (vector)((positive & below) | ((int_vector)top & ~below));
#endif
}

// v with the sign changed in every lane whose bit is set; lane 0 has the lowest.
INLINE vector flip(vector v, uint32_t bits) {
#if defined(CODEC_AVX512)
  return (vector)_mm512_mask_xor_ps((__m512)v, (__mmask16)bits, (__m512)v, _mm512_set1_ps(-0.0f));
#else
#if defined(CODEC_AVX2)
  const uint_vector own = {1, 2, 4, 8, 16, 32, 64, 128};
#else
  const uint_vector own = {1, 2, 4, 8};
#endif
  const int_vector set = (((uint_vector){0} + bits) & own) == own;
  return (vector)((uint_vector)v ^ ((uint_vector)set & 0x80000000u));
#endif
}

// table[index[i]] for every lane; the table has NEAR (32) entries.
INLINE vector look_up(const float *table, int_vector index) {
#if defined(CODEC_AVX512)
  return (vector)_mm512_permutex2var_ps((__m512)load(table), (__m512i)index, (__m512)load(table + WIDTH));
#elif defined(CODEC_AVX2)
  const __m256 bit_3 = _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 28));
  const __m256 bit_4 = _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 27));
  __m256 found[4];
  UNROLL for (int i = 0; i < 4; i++)
    found[i] = _mm256_permutevar8x32_ps((__m256)load(table + i * WIDTH), (__m256i)index);
  return (vector)_mm256_blendv_ps(_mm256_blendv_ps(found[0], found[1], bit_3),
                                  _mm256_blendv_ps(found[2], found[3], bit_3), bit_4);
#else
  vector found;
  for (int i = 0; i < WIDTH; i++) found[i] = table[index[i]];
  return found;
#endif
}

INLINE vector look_up_many(const float *table, int_vector index) {
  vector found;
  for (int i = 0; i < WIDTH; i++) found[i] = table[index[i]];
  return found;
}

// The same of a table with so many entries: NEAR, 2 NEAR, 4 NEAR, or 0 for any number.
INLINE vector look_up_of(const float *table, int_vector index, int entries) {
  if (entries == NEAR) return look_up(table, index);
#if defined(CODEC_AVX512)
  if (entries) {
    const __mmask16 bit_5 = _mm512_test_epi32_mask((__m512i)index, _mm512_set1_epi32(NEAR));
    const __mmask16 bit_6 = _mm512_test_epi32_mask((__m512i)index, _mm512_set1_epi32(2 * NEAR));
    __m512 found[2];
    UNROLL for (int i = 0; i < entries / (2 * NEAR); i++)
      found[i] = _mm512_mask_blend_ps(bit_5, (__m512)look_up(table + 2 * i * NEAR, index),
                                      (__m512)look_up(table + (2 * i + 1) * NEAR, index));
    return (vector)(entries == 2 * NEAR ? found[0] : _mm512_mask_blend_ps(bit_6, found[0], found[1]));
  }
#endif
  return look_up_many(table, index);
}

// The same by the low four bits of each index.
INLINE vector look_up_16(const float *table, int_vector index) {
#if defined(CODEC_AVX512)
  return (vector)_mm512_permutexvar_ps((__m512i)index, (__m512)load(table));
#elif defined(CODEC_AVX2)
  const __m256 bit_3 = _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 28));
  return (vector)_mm256_blendv_ps(_mm256_permutevar8x32_ps((__m256)load(table), (__m256i)index),
                                  _mm256_permutevar8x32_ps((__m256)load(table + WIDTH), (__m256i)index), bit_3);
#else
  return look_up(table, index & 15);
#endif
}

// The top bit of each lane; lane 0 has the lowest.
INLINE uint32_t lane_bits(int_vector v) {
#if defined(CODEC_AVX512)
  return _mm512_movepi32_mask((__m512i)v);
#elif defined(CODEC_AVX2)
  return (uint32_t)_mm256_movemask_ps((__m256)v);
#elif defined(__SSE2__)
  return (uint32_t)_mm_movemask_ps((__m128)v);
#else
  uint32_t bits = 0;
  for (int i = 0; i < WIDTH; i++) bits |= (uint32_t)v[i] >> 31 << i;
  return bits;
#endif
}
