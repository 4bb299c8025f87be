// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What targets of libFuzzer share: an input that is read as small numbers, and memory blocks of exactly their size, so
// that a read or write past an end is found.
//
// The system's calls have other names in all that is compiled here (-Drecvmmsg=fuzz_recvmmsg and so on, see
// libfuzzer.py): each target plays them, so that also messages come that no kernel makes on demand, and errors.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Zeros follow its end.
struct input {
  const uint8_t *at, *end;
};

static inline int is_over(const struct input *input) { return input->at >= input->end; }

static inline uint8_t take8(struct input *input) { return is_over(input) ? 0 : *input->at++; }

static inline uint16_t take16(struct input *input) {
  const uint8_t high = take8(input);
  return (uint16_t)(high << 8 | take8(input));
}

static inline uint32_t take32(struct input *input) {
  const uint32_t high = take16(input);
  return high << 16 | take16(input);
}

// Bytes that follow from one byte: 0 all zeros, 1 all ones, else mixed.
static inline void fill(uint8_t *to, size_t bytes, uint8_t pattern) {
  uint32_t state = pattern * 2654435761u;
  for (size_t i = 0; i < bytes; i++) {
    state = state * 1664525u + 1013904223u;
    to[i] = pattern == 0 ? 0 : pattern == 1 ? 0xFF : (uint8_t)(state >> 24);
  }
}

// A copy in a block of its own; an empty one has no byte that may be read.
static inline uint8_t *copied(const uint8_t *from, size_t bytes) {
  uint8_t *block = malloc(bytes);
  if (bytes) memcpy(block, from, bytes);
  return block;
}

static inline void fail(const char *why, uint64_t value) {
  fprintf(stderr, "fuzz: %s: %llu\n", why, (unsigned long long)value);
  abort();
}
