// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#include "planes.h"

#if defined(CODEC_MATRICES)
// 512 values of a chunk: the eight planes' bytes side by side, in each quarter of a vector for itself, then eight by
// eight bits transposed. So vector i has bytes 2 i and 2 i + 1 of every quarter.
INLINE void unpack_half(const uint8_t *words, uint8_t *values) {
  __m512i one[8], two[8], four[8];
  UNROLL for (int i = 0; i < 8; i++) one[i] = _mm512_loadu_si512(words + i * PLANE_BYTES);
  UNROLL for (int i = 0; i < 4; i++) {
    two[i] = _mm512_unpacklo_epi8(one[2 * i], one[2 * i + 1]);
    two[i + 4] = _mm512_unpackhi_epi8(one[2 * i], one[2 * i + 1]);
  }
  UNROLL for (int i = 0; i < 8; i += 2) {
    four[i] = _mm512_unpacklo_epi16(two[i], two[i + 1]);
    four[i + 1] = _mm512_unpackhi_epi16(two[i], two[i + 1]);
  }
  const __m512i order = _mm512_set1_epi64(0x0102040810204080);
  UNROLL for (int i = 0; i < 4; i++) {
    const int from = i / 2 * 4 + i % 2;
    const __m512i low = _mm512_unpacklo_epi32(four[from], four[from + 2]);
    const __m512i high = _mm512_unpackhi_epi32(four[from], four[from + 2]);
    _mm512_storeu_si512(values + i * 128, _mm512_gf2p8affine_epi64_epi8(order, low, 0));
    _mm512_storeu_si512(values + i * 128 + 64, _mm512_gf2p8affine_epi64_epi8(order, high, 0));
  }
}

void planes_unpack_sums(const uint8_t *words, uint8_t *values) {
  unpack_half(words, values);
  unpack_half(words + PLANE_BYTES / 2, values + CHUNK / 2);
}
#else
typedef uint8_t octets __attribute__((vector_size(16)));
typedef uint16_t pairs __attribute__((vector_size(16)));
typedef uint32_t fours __attribute__((vector_size(16)));

// The bytes of eight planes, side by side: 8 for each of 16 places.
INLINE void interleave(const octets *plane, uint64_t *eight) {
  UNROLL for (int half = 0; half < 2; half++) {
    pairs two[4];
    UNROLL for (int i = 0; i < 4; i++) {
      const octets a = plane[2 * i], b = plane[2 * i + 1];
      two[i] = half ? (pairs)__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
                    : (pairs)__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    }
    UNROLL for (int quarter = 0; quarter < 2; quarter++) {
      fours four[2];
      UNROLL for (int i = 0; i < 2; i++) {
        const pairs a = two[2 * i], b = two[2 * i + 1];
        four[i] = quarter ? (fours)__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                          : (fours)__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
      }
      const fours low = __builtin_shufflevector(four[0], four[1], 0, 4, 1, 5);
      const fours high = __builtin_shufflevector(four[0], four[1], 2, 6, 3, 7);
      memcpy(eight + 8 * half + 4 * quarter, &low, sizeof low);
      memcpy(eight + 8 * half + 4 * quarter + 2, &high, sizeof high);
    }
  }
}

// Swaps bits of a word that lie `distance` apart; `mask` has the lower partners.
INLINE uint64_t exchange(uint64_t word, int distance, uint64_t mask) {
  const uint64_t difference = (word >> distance ^ word) & mask;
  return word ^ difference ^ difference << distance;
}

void planes_unpack_sums(const uint8_t *words, uint8_t *values) {
  uint64_t eight[PLANE_BYTES];
  for (int first = 0; first < PLANE_BYTES; first += 16) {
    octets plane[8];
    UNROLL for (int i = 0; i < 8; i++) memcpy(&plane[i], words + i * PLANE_BYTES + first, 16);
    interleave(plane, eight + first);
  }
  // Eight by eight bits, reflected at the second diagonal: rows are planes, columns 7..0 the values.
  for (int i = 0; i < PLANE_BYTES; i++) {
    uint64_t matrix = exchange(eight[i], 9, 0x0055005500550055u);
    matrix = exchange(matrix, 18, 0x0000333300003333u);
    eight[i] = exchange(matrix, 36, 0x000000000F0F0F0Fu);
  }
  memcpy(values, eight, CHUNK);
}
#endif

uint8_t planes_largest(const uint8_t *words) {
  // Values that are still as large as any, one bit each.
  uint64_t largest[PLANE_BYTES / 8];
  memset(largest, 0xFF, PLANE_BYTES);
  uint8_t value = 0;
  for (int plane = 0; plane < (int)CODEC_SUM_PLANES; plane++) {
    uint64_t word[PLANE_BYTES / 8], any = 0;
    memcpy(word, words + plane * PLANE_BYTES, PLANE_BYTES);
    for (int i = 0; i < PLANE_BYTES / 8; i++) any |= word[i] &= largest[i];
    if (any) memcpy(largest, word, PLANE_BYTES);
    value = (uint8_t)(value << 1 | (any != 0));
  }
  return value;
}

uint8_t lanes_largest(const uint8_t *words) {
  uint8_t value = 0;
  for (int i = 0; i < (int)CHUNK; i++) value = words[i] > value ? words[i] : value;
  return value;
}
