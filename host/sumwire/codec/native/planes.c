// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#include "planes.h"

#if defined(CODEC_AVX512)
// A bit of a plane is a bit of a mask, by which its weight is added to 64 bytes.
INLINE void unpack(const uint8_t *words, int count, uint8_t *values) {
  const __m512i mirrored = _mm512_set_epi64(
      0x08090A0B0C0D0E0F, 0x0001020304050607, 0x08090A0B0C0D0E0F, 0x0001020304050607, 0x08090A0B0C0D0E0F,
      0x0001020304050607, 0x08090A0B0C0D0E0F, 0x0001020304050607);
  for (int first = 0; first < PLANE_BYTES; first += 8) {
    __m512i sum = _mm512_setzero_si512();
    UNROLL for (int plane = 0; plane < count; plane++) {
      uint64_t bits;
      memcpy(&bits, words + plane * PLANE_BYTES + first, sizeof bits);
      sum = _mm512_mask_add_epi8(sum, bits, sum, _mm512_set1_epi8((char)(1 << (count - 1 - plane))));
    }
    _mm512_storeu_si512(values + first * 8, _mm512_shuffle_epi8(sum, mirrored));
  }
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

INLINE void unpack(const uint8_t *words, int count, uint8_t *values) {
  uint64_t eight[PLANE_BYTES];
  for (int first = 0; first < PLANE_BYTES; first += 16) {
    octets plane[8] = {0};
    UNROLL for (int i = 0; i < count; i++) memcpy(&plane[8 - count + i], words + i * PLANE_BYTES + first, 16);
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

void planes_unpack_sums(const uint8_t *words, uint8_t *values) {
  unpack(words, CODEC_SUM_PLANES, values);
}

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
