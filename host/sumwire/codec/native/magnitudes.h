// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// What is smaller or larger: of numbers, and of the magnitudes of floats, which order like their bits.
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static const uint32_t MAGNITUDE = 0x7FFFFFFFu, INFINITE = 0x7F800000u;

// Bits of the largest magnitude of so many values; above INFINITE with NaN.
static inline uint32_t largest_of(const float *x, uint64_t count) {
  uint32_t largest = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    bits &= MAGNITUDE;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}
