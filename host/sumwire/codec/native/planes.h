// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// A chunk's values to bit planes and back, in the order of sumwire.codec.planes.
#pragma once

#include <stdint.h>

// The lowest bit of each of eight bytes, in one byte: the first byte's is the most significant.
static inline uint8_t gather_lowest(uint64_t bytes) {
  return (uint8_t)((bytes & 0x0101010101010101u) * 0x8040201008040201u >> 56);
}

// Indices below 16 to four planes, the most significant first.
void planes_pack(const uint8_t *indices, uint8_t *words);

// `count` (1..8) planes to the bytes they stand for.
void planes_unpack(const uint8_t *words, int count, uint8_t *values);

// The largest byte that eight planes stand for.
uint8_t planes_largest(const uint8_t *words);
