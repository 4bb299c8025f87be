// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The Internet checksum (RFC 1071). Sums are of 16-bit words as they lie in memory, in the machine's byte order.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t ss_lanes __attribute__((vector_size(64)));

// The sum of `length` bytes; an odd last byte counts as if a zero followed. Fold it before it is stored.
static inline uint64_t ss_sum(const uint8_t *data, size_t length) {
  uint64_t sum = 0;
  if (length >= sizeof(ss_lanes)) {
    ss_lanes low = {0}, high = {0};
    for (; length >= sizeof low; length -= sizeof low, data += sizeof low) {
      ss_lanes part;
      memcpy(&part, data, sizeof part);
      low += part & 0xFFFFFFFFu;
      high += part >> 32;
    }
    low += high;
    for (size_t lane = 0; lane < sizeof low / sizeof low[0]; lane++) sum += low[lane];
  }
  uint32_t word = 0;
  for (; length >= sizeof word; length -= sizeof word, data += sizeof word) {
    memcpy(&word, data, sizeof word);
    sum += word;
  }
  word = 0;
  if (length != 0) memcpy(&word, data, length);
  return sum + word;
}

static inline uint16_t ss_fold(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFFu) + (sum >> 16);
  return (uint16_t)sum;
}

// The checksum of what `sum` was summed over with a checksum of 0.
static inline uint16_t ss_checksum(uint64_t sum) { return (uint16_t)~ss_fold(sum); }

// As UDP stores it, where 0 means none. TCP may store either, because both are the same number.
static inline uint16_t ss_checksum_not_0(uint64_t sum) {
  uint16_t checksum = ss_checksum(sum);
  return checksum == 0 ? 0xFFFFu : checksum;
}
