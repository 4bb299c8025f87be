// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Masks, and the two forms of THC's values: planes, of which bit i is a bit of value i, and lanes, a byte for each
// value. Chunks lie so many bytes apart where a `step` is given.
#include <stdint.h>
#include <string.h>

#include "constants.h"

enum { CHUNK = BLIND_WORDS * BLIND_WORD_BYTES, ELEMENTS = CHUNK / 4, OCTETS = 8 };

static uint32_t swapped(uint32_t number) {
  return __builtin_bswap32(number);
}

static uint32_t little(uint32_t number) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  number = swapped(number);
#endif
  return number;
}

static uint32_t big(uint32_t number) {
  return swapped(little(number));
}

// A stream of numbers, the least significant byte first, to be added to elements (1) or subtracted from them (-1).
struct blind_stream {
  const uint8_t *numbers;
  int64_t sign;
};

// Adds streams to elements, the most significant byte first.
void blind_add(uint8_t *payload, int64_t step, uint64_t chunks, const struct blind_stream *streams, uint64_t count) {
  for (uint64_t chunk = 0; chunk < chunks; chunk++, payload += step) {
    uint32_t elements[ELEMENTS], numbers[ELEMENTS];
    memcpy(elements, payload, CHUNK);
    for (int i = 0; i < ELEMENTS; i++) elements[i] = big(elements[i]);
    for (uint64_t of = 0; of < count; of++) {
      const uint32_t sign = (uint32_t)streams[of].sign;
      memcpy(numbers, streams[of].numbers + chunk * CHUNK, CHUNK);
      for (int i = 0; i < ELEMENTS; i++) elements[i] += sign * little(numbers[i]);
    }
    for (int i = 0; i < ELEMENTS; i++) elements[i] = big(elements[i]);
    memcpy(payload, elements, CHUNK);
  }
}

static const uint64_t PRIME = ((uint64_t)1 << 61) - 1;

// Modulo the prime, of a number below 2^122.
static uint64_t reduced(unsigned __int128 number) {
  uint64_t low = (uint64_t)number & PRIME, high = (uint64_t)(number >> 61), sum = low + high;
  return sum >= PRIME ? sum - PRIME : sum;
}

// The sum over all elements of element x factor x weight modulo the prime: factors of the elements of a chunk, weights of
// chunks, both below 2^61. Elements are int32 if `is_signed`, else uint32.
uint64_t blind_check(const uint8_t *payload, int64_t step, uint64_t chunks, const uint64_t *factors,
                     const uint64_t *weights, int is_signed) {
  uint64_t total = 0;
  for (uint64_t chunk = 0; chunk < chunks; chunk++, payload += step) {
    uint32_t elements[ELEMENTS];
    memcpy(elements, payload, CHUNK);
    __int128 inner = 0;
    for (int i = 0; i < ELEMENTS; i++) {
      const uint32_t element = big(elements[i]);
      inner += (__int128)(is_signed ? (int64_t)(int32_t)element : (int64_t)element) * (int64_t)factors[i];
    }
    // A multiple of the prime makes it positive: 2^31 x 2^61 x 256 = 2^100.
    if (is_signed) inner += (__int128)PRIME << 40;
    total = reduced((unsigned __int128)reduced((unsigned __int128)inner) * weights[chunk] + total);
  }
  return total % PRIME;
}

// A matrix of 8 x 8 bits, a row in each byte of the number, turned at its first diagonal.
static uint64_t transposed(uint64_t rows) {
  uint64_t other = (rows ^ rows >> 7) & 0x00AA00AA00AA00AA;
  rows ^= other ^ other << 7;
  other = (rows ^ rows >> 14) & 0x0000CCCC0000CCCC;
  rows ^= other ^ other << 14;
  other = (rows ^ rows >> 28) & 0x00000000F0F0F0F0;
  return rows ^ other ^ other << 28;
}

// Index planes to the bytes of a table of 16 entries.
void blind_to_lanes(const uint8_t *planes, uint64_t chunks, const uint8_t *table, uint8_t *lanes, int64_t step) {
  for (uint64_t chunk = 0; chunk < chunks; chunk++, planes += BLIND_INDEX_PLANES * BLIND_WORD_BYTES, lanes += step)
    for (int at = 0; at < BLIND_WORD_BYTES; at++) {
      uint64_t rows = 0;
      for (int plane = 0; plane < BLIND_INDEX_PLANES; plane++)
        rows |= (uint64_t)planes[plane * BLIND_WORD_BYTES + at] << 8 * (BLIND_INDEX_PLANES - 1 - plane);
      rows = transposed(rows);
      // The first value is the planes' most significant bit.
      for (int value = 0; value < OCTETS; value++)
        lanes[at * OCTETS + value] = table[rows >> 8 * (OCTETS - 1 - value) & 0xFF];
    }
}

// Bytes to sum planes.
void blind_to_planes(const uint8_t *lanes, int64_t step, uint64_t chunks, uint8_t *planes) {
  for (uint64_t chunk = 0; chunk < chunks; chunk++, lanes += step, planes += CHUNK)
    for (int at = 0; at < BLIND_WORD_BYTES; at++) {
      uint64_t rows = 0;
      for (int value = 0; value < OCTETS; value++)
        rows |= (uint64_t)lanes[at * OCTETS + value] << 8 * (OCTETS - 1 - value);
      rows = transposed(rows);
      for (int plane = 0; plane < BLIND_WORDS; plane++)
        planes[plane * BLIND_WORD_BYTES + at] = rows >> 8 * (BLIND_WORDS - 1 - plane);
    }
}
