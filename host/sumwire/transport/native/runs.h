// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SUMWIRE_RUNS_H
#define SUMWIRE_RUNS_H

#include <stdint.h>

#include "constants.h"

// Where a receiving call puts messages. Lengths (uint32_t) and bytes of each datagram (int32_t, 0 if the message is a
// single one) lie so many bytes apart.
struct runs_messages {
  const uint8_t *memory;
  uint64_t message_bytes;
  const uint8_t *lengths;
  uint64_t length_bytes;
  const uint8_t *segments;
  uint64_t segment_bytes;
};

// The exchange under way. `expected` has a head for each chunk, in the fields of `mask`. After a run: its first chunk,
// and the datagrams of its longest message.
struct runs_exchange {
  const uint64_t *expected;
  uint64_t mask[HEAD_NUMBERS];
  uint64_t chunks;
  uint64_t payload_bytes;
  // Of the authentication tag behind it, which has been checked.
  uint64_t tag_bytes;
  const uint8_t *flying;
  uint8_t *words;
  uint8_t *counts;
  uint8_t *contributors;
  uint64_t first;
  uint64_t longest;
};

// Stores the results in the messages, if they are a run, and returns their number; else 0.
uint64_t runs_take(const struct runs_messages *in, uint64_t messages, struct runs_exchange *exchange);

#endif
