// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// A chunk's values to bit planes and back, in the order of sumwire.codec.layout.
#pragma once

#include "vectors.h"

enum { PLANE_BYTES = CODEC_WORD_BYTES, CHUNK = CODEC_CHUNK_VALUES, PACKED_VECTORS = 4 };

// The lowest bit of each of eight bytes, in one byte: the first byte's is the most significant.
static inline uint8_t gather_lowest(uint64_t bytes) {
  return (uint8_t)((bytes & 0x0101010101010101u) * 0x8040201008040201u >> 56);
}

// Mirrors the bits of every byte.
static inline uint64_t mirror_bits(uint64_t bytes) {
  bytes = (bytes >> 1 & 0x5555555555555555u) | (bytes & 0x5555555555555555u) << 1;
  bytes = (bytes >> 2 & 0x3333333333333333u) | (bytes & 0x3333333333333333u) << 2;
  return (bytes >> 4 & 0x0F0F0F0F0F0F0F0Fu) | (bytes & 0x0F0F0F0F0F0F0F0Fu) << 4;
}

// Puts the bytes of four vectors' values, byte k of a lane being of vector k, in the order of plane bits: eight values
// from the last to the first, then the next eight.
INLINE uint_vector to_plane_order(uint_vector bytes) {
#if defined(CODEC_AVX512)
  const __m512i in_lanes = _mm512_set4_epi32(0x03070B0F, 0x02060A0E, 0x0105090D, 0x0004080C);
  const __m512i lanes = _mm512_setr_epi32(4, 0, 12, 8, 5, 1, 13, 9, 6, 2, 14, 10, 7, 3, 15, 11);
  return (uint_vector)_mm512_permutexvar_epi32(lanes, _mm512_shuffle_epi8((__m512i)bytes, in_lanes));
#elif defined(CODEC_AVX2)
  const __m256i in_lanes = _mm256_setr_epi32(0x0004080C, 0x0105090D, 0x02060A0E, 0x03070B0F, 0x0004080C, 0x0105090D,
                                             0x02060A0E, 0x03070B0F);
  const __m256i lanes = _mm256_setr_epi32(4, 0, 5, 1, 6, 2, 7, 3);
  return (uint_vector)_mm256_permutevar8x32_epi32(_mm256_shuffle_epi8((__m256i)bytes, in_lanes), lanes);
#else
  typedef uint8_t octets __attribute__((vector_size(4 * WIDTH)));
  const octets from = (octets)bytes;
  return (uint_vector)__builtin_shufflevector(from, from, 13, 9, 5, 1, 12, 8, 4, 0, 15, 11, 7, 3, 14, 10, 6, 2);
#endif
}

// The top bit of every byte; the first byte's is the lowest.
INLINE uint64_t byte_bits(uint_vector bytes) {
#if defined(CODEC_AVX512)
  return _mm512_movepi8_mask((__m512i)bytes);
#elif defined(CODEC_AVX2)
  return (uint32_t)_mm256_movemask_epi8((__m256i)bytes);
#elif defined(__SSE2__)
  return (uint32_t)_mm_movemask_epi8((__m128i)bytes);
#else
  const word_vector lowest = ((word_vector)bytes >> 7 & 0x0101010101010101u) * 0x0102040810204080u >> 56;
  return lowest[0] | lowest[1] << 8;
#endif
}

// Indices of PACKED_VECTORS x WIDTH values, in bits 16 to 19 of their lanes, to their places in the planes. The other bits do
// not matter. `words` is where the first of the values has its bit in the first plane.
#if defined(CODEC_MATRICES)
INLINE void pack_indices(const uint_vector *index, uint8_t *words) {
  // The third byte of every lane, and eight by eight the transposed bits of those.
  const __m512i third = _mm512_set_epi64(0, 0, 0, 0, 0x7E7A76726E6A6662, 0x5E5A56524E4A4642, 0x3E3A36322E2A2622,
                                         0x1E1A16120E0A0602);
  const __m512i low = _mm512_permutex2var_epi8((__m512i)index[0], third, (__m512i)index[1]);
  const __m512i high = _mm512_permutex2var_epi8((__m512i)index[2], third, (__m512i)index[3]);
  const __m512i bytes = _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
  const __m512i bits = _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(0x01020408), bytes, 0);
  // Byte i of each eight is plane i's.
  const __m512i by_plane = _mm512_set_epi64(0, 0, 0, 0, 0x3B332B231B130B03, 0x3A322A221A120A02, 0x3931292119110901,
                                            0x3830282018100800);
  const __m256i all = _mm512_castsi512_si256(_mm512_permutexvar_epi8(by_plane, bits));
  const __m128d first = _mm_castsi128_pd(_mm256_castsi256_si128(all));
  const __m128d last = _mm_castsi128_pd(_mm256_extracti128_si256(all, 1));
  _mm_storel_pd((double *)words, first);
  _mm_storeh_pd((double *)(words + PLANE_BYTES), first);
  _mm_storel_pd((double *)(words + 2 * PLANE_BYTES), last);
  _mm_storeh_pd((double *)(words + 3 * PLANE_BYTES), last);
}
#else
INLINE void pack_indices(const uint_vector *index, uint8_t *words) {
  const uint_vector merged = (index[0] >> 16 & 0xFu) | (index[1] >> 8 & 0xF00u) | (index[2] & 0xF0000u) |
                             (index[3] << 8 & 0xF000000u);
  const uint_vector ordered = to_plane_order(merged);
  UNROLL for (int plane = 0; plane < (int)CODEC_INDEX_PLANES; plane++) {
    const uint64_t bits = byte_bits(ordered << (8 - CODEC_INDEX_PLANES + plane));
    memcpy(words + plane * PLANE_BYTES, &bits, WIDTH / 2);
  }
}
#endif

// A chunk's sum planes to the bytes they stand for, which load_sums reads.
void planes_unpack_sums(const uint8_t *words, uint8_t *values);

// The sums of the WIDTH values from value `at` on.
INLINE int_vector load_sums(const uint8_t *values, size_t at) {
#if defined(CODEC_MATRICES)
  // Of 128 values by 16 and these by 4, in rows and columns.
  return load_bytes(values + at / 512 * 512 + at % 128 * 4 + at % 512 / 128 * 16);
#else
  return load_bytes(values + at);
#endif
}

// The largest byte that eight planes stand for.
uint8_t planes_largest(const uint8_t *words);

// The largest byte of a chunk's lanes.
uint8_t lanes_largest(const uint8_t *words);
