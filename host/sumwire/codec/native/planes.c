// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#include "planes.h"

#include <string.h>

#include "constants.h"

enum { BYTES = CODEC_WORD_BYTES, VALUES = CODEC_CHUNK_VALUES };

void planes_pack(const uint8_t *indices, uint8_t *words) {
  uint64_t eight[BYTES];
  memcpy(eight, indices, VALUES);
  for (int plane = 0; plane < (int)CODEC_INDEX_PLANES; plane++) {
    const int bit = CODEC_INDEX_PLANES - 1 - plane;
    for (int i = 0; i < BYTES; i++) words[plane * BYTES + i] = gather_lowest(eight[i] >> bit);
  }
}

// Swaps bits of a word that lie `distance` apart; `mask` has the lower partners.
static inline uint64_t exchange(uint64_t word, int distance, uint64_t mask) {
  const uint64_t difference = (word >> distance ^ word) & mask;
  return word ^ difference ^ difference << distance;
}

void planes_unpack(const uint8_t *words, int count, uint8_t *values) {
  uint64_t eight[BYTES] = {0};
  for (int plane = 0; plane < count; plane++) {
    const int shift = 8 * (8 - count + plane);
    for (int i = 0; i < BYTES; i++) eight[i] |= (uint64_t)words[plane * BYTES + i] << shift;
  }
  // Eight by eight bits, reflected at the second diagonal: rows are planes, columns 7..0 the values.
  for (int i = 0; i < BYTES; i++) {
    uint64_t matrix = exchange(eight[i], 9, 0x0055005500550055u);
    matrix = exchange(matrix, 18, 0x0000333300003333u);
    eight[i] = exchange(matrix, 36, 0x000000000F0F0F0Fu);
  }
  memcpy(values, eight, VALUES);
}

uint8_t planes_largest(const uint8_t *words) {
  // Values that are still as large as any, one bit each.
  uint64_t largest[BYTES / 8];
  memset(largest, 0xFF, BYTES);
  uint8_t value = 0;
  for (int plane = 0; plane < (int)CODEC_SUM_PLANES; plane++) {
    uint64_t word[BYTES / 8], any = 0;
    memcpy(word, words + plane * BYTES, BYTES);
    for (int i = 0; i < BYTES / 8; i++) any |= word[i] &= largest[i];
    if (any) memcpy(largest, word, BYTES);
    value = (uint8_t)(value << 1 | (any != 0));
  }
  return value;
}
