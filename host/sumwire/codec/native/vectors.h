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
#define RADIX 16
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#define CODEC_AVX2
#define WIDTH 8
#define RADIX 8
#include <immintrin.h>
#elif defined(__aarch64__)
#define WIDTH 4
#define RADIX 16
#include <arm_neon.h>
#else
#define WIDTH 4
#define RADIX 8
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#endif

enum { LOOK_UP = CODEC_LOOK_UP };

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

INLINE vector all(float value) {
  return (vector){0} + value;
}

// WIDTH bytes as numbers.
INLINE int_vector load_bytes(const uint8_t *from) {
  byte_row row;
  memcpy(&row, from, sizeof row);
  return __builtin_convertvector(row, int_vector);
}

// sum - 2 b. Doubling is exact, so a fused operation has the same result.
INLINE vector less_twice(vector sum, vector b) {
#if defined(CODEC_AVX512)
  return (vector)_mm512_fnmadd_ps((__m512)b, _mm512_set1_ps(2), (__m512)sum);
#elif defined(CODEC_AVX2)
  return (vector)_mm256_fnmadd_ps((__m256)b, _mm256_set1_ps(2), (__m256)sum);
#elif defined(__aarch64__)
  return (vector)vfmsq_n_f32((float32x4_t)sum, (float32x4_t)b, 2);
#else
  return sum - (b + b);
#endif
}

// One step of butterflies between the lanes of a vector: those whose number differs in one bit, `distance`.
#if defined(CODEC_AVX512)
// A mask that the compiler does not see through: it makes shuffles of a known one, which are dearer.
INLINE __mmask16 opaque(__mmask16 mask) {
  __asm__("" : "+k"(mask));
  return mask;
}

#define LANE_STEP(v, swapped, high)                                                        \
  do {                                                                                     \
    const __m512 sum_ = _mm512_add_ps((__m512)(v), swapped);                               \
    (v) = (vector)_mm512_mask3_fnmadd_ps((__m512)(v), _mm512_set1_ps(2), sum_, opaque(high)); \
  } while (0)
#define LANE_STEPS(v)                                                                      \
  do {                                                                                     \
    LANE_STEP(v, _mm512_shuffle_f32x4((__m512)(v), (__m512)(v), 0x4E), 0xFF00);            \
    LANE_STEP(v, _mm512_shuffle_f32x4((__m512)(v), (__m512)(v), 0xB1), 0xF0F0);            \
    LANE_STEP(v, _mm512_permute_ps((__m512)(v), 0x4E), 0xCCCC);                            \
    LANE_STEP(v, _mm512_permute_ps((__m512)(v), 0xB1), 0xAAAA);                            \
  } while (0)
#elif defined(CODEC_AVX2)
#define LANE_STEP(v, swapped, high)                                                        \
  do {                                                                                     \
    const vector sum_ = (v) + (vector)(swapped);                                           \
    (v) = (vector)_mm256_blend_ps((__m256)sum_, (__m256)less_twice(sum_, v), high);        \
  } while (0)
#define LANE_STEPS(v)                                                                      \
  do {                                                                                     \
    LANE_STEP(v, _mm256_permute2f128_ps((__m256)(v), (__m256)(v), 1), 0xF0);               \
    LANE_STEP(v, _mm256_permute_ps((__m256)(v), 0x4E), 0xCC);                              \
    LANE_STEP(v, _mm256_permute_ps((__m256)(v), 0xB1), 0xAA);                              \
  } while (0)
#else
#define LANE_STEPS(v)                                                                      \
  do {                                                                                     \
    vector sum_ = (v) + __builtin_shufflevector(v, v, 2, 3, 0, 1);                         \
    (v) = __builtin_shufflevector(sum_, less_twice(sum_, v), 0, 1, 6, 7);                  \
    sum_ = (v) + __builtin_shufflevector(v, v, 1, 0, 3, 2);                                \
    (v) = __builtin_shufflevector(sum_, less_twice(sum_, v), 0, 5, 2, 7);                  \
  } while (0)
#endif

// The sum of all lanes, by halves.
INLINE float add_lanes(vector v) {
  float lane[WIDTH];
  store(lane, v);
  UNROLL for (int half = WIDTH / 2; half > 0; half /= 2)
    UNROLL for (int i = 0; i < half; i++) lane[i] += lane[i + half];
  return lane[0];
}

// v, but at least 0 and at most `top`.
INLINE vector clamp(vector v, vector top) {
#if defined(CODEC_AVX512)
  return (vector)_mm512_min_ps(_mm512_max_ps((__m512)v, _mm512_setzero_ps()), (__m512)top);
#elif defined(CODEC_AVX2)
  return (vector)_mm256_min_ps(_mm256_max_ps((__m256)v, _mm256_setzero_ps()), (__m256)top);
#else
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

// table[index[i]] for every lane; the table has LOOK_UP (32) entries.
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

// As look_up, for indices below 16.
INLINE vector look_up_16(const float *table, int_vector index) {
#if defined(CODEC_AVX512)
  return (vector)_mm512_permutexvar_ps((__m512i)index, (__m512)load(table));
#elif defined(CODEC_AVX2)
  const __m256 bit_3 = _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 28));
  return (vector)_mm256_blendv_ps(_mm256_permutevar8x32_ps((__m256)load(table), (__m256i)index),
                                  _mm256_permutevar8x32_ps((__m256)load(table + WIDTH), (__m256i)index), bit_3);
#else
  return look_up(table, index);
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
