// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// One admitted packet on its way through admission, the slot protocol and the replies.
#pragma once

#include <string.h>

#include "aggregator.h"

static inline uint16_t load16(const uint8_t *from) {
  uint16_t value;
  memcpy(&value, from, sizeof value);
  return __builtin_bswap16(value);
}

static inline uint32_t load32(const uint8_t *from) {
  uint32_t value;
  memcpy(&value, from, sizeof value);
  return __builtin_bswap32(value);
}

static inline void store32(uint8_t *to, uint32_t value) {
  value = __builtin_bswap32(value);
  memcpy(to, &value, sizeof value);
}

// Words of an op: from a host, from a lower switch, and of a result.
struct op_words {
  uint8_t up, partial, down;
};

// By op code, from sumwire_protocol.ops. A code without an op has no words.
extern const struct op_words OP_WORDS[];

static inline int lost_planes(const uint8_t *row) {
  return row[AT_OP] == OP_THC && row[AT_WORDS] == THC_WORDS_TRIMMED;
}

// A packet and what it is about.
struct one {
  const struct aggregator_state *state;
  const struct aggregator_job *job;
  const uint8_t *row;
  struct aggregator_slot *slot;
  uint8_t *words;
  uint32_t number, generation, round, seat;
  uint8_t op, flags, tos;
  // A contribution without its low index planes.
  uint8_t trimmed;
};

// A reason to refuse datagram number i, or `p` is filled.
int packet_admit(const struct aggregator_state *state, const struct aggregator_batch *batch, uint64_t i, struct one *p);

// Writes what is said because of the packet behind the first `at` replies. How many there are then.
uint64_t packet_reply(const struct one *p, int verdict, const struct aggregator_replies *out, uint64_t at);
