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

static inline uint64_t load64(const uint8_t *from) {
  uint64_t value;
  memcpy(&value, from, sizeof value);
  return __builtin_bswap64(value);
}

static inline void store16(uint8_t *to, uint16_t value) {
  value = __builtin_bswap16(value);
  memcpy(to, &value, sizeof value);
}

static inline void store32(uint8_t *to, uint32_t value) {
  value = __builtin_bswap32(value);
  memcpy(to, &value, sizeof value);
}

static inline int lost_planes(const uint8_t *row) {
  return row[AT_OP] == OP_THC && row[AT_WORDS] == THC_WORDS_TRIMMED;
}

static inline int kind_of(const uint8_t *row) { return row[AT_VERSION_KIND] & 0xF; }

// Kinds that the aggregator above sends.
static inline int from_above(int kind) { return kind == KIND_RESULT || kind == KIND_STALE || kind == KIND_REFUSED; }

// Of every packet of a job, but of none that says why another one is refused.
static inline uint32_t tag_bytes(const struct aggregator_job *job, const uint8_t *row) {
  return job->key.present && kind_of(row) != KIND_REFUSED ? TAG_BYTES : 0;
}

static inline int has_above(const struct aggregator_job *job) { return job->above >= 0; }

// A question that every job answers: how the slot is, and what the switch holds the job for.
static inline int is_hello(const uint8_t *row) {
  return kind_of(row) == KIND_PROBE && row[AT_OP] == OP_NONE && row[AT_WORDS] == 0;
}

// A packet, with its job and its slot.
struct one {
  const struct aggregator_state *state;
  const struct aggregator_job *job;
  struct aggregator_run *run;
  const uint8_t *row;
  struct aggregator_slot *slot;
  uint8_t *words;
  uint64_t token;
  uint32_t number, round, seat;
  uint16_t bucket;
  uint8_t op, flags, tos;
  // Why the slot refuses it.
  int reason;
  // A contribution without its low index planes.
  uint8_t trimmed;
};

// Fills `p` for datagram number i. Returns REJECT_NONE, or the reason to refuse it.
int packet_admit(const struct aggregator_state *state, const struct aggregator_batch *batch, uint64_t i, struct one *p);

// Writes the replies to a packet behind the first `at` replies. Returns the number of replies then.
uint64_t packet_reply(const struct one *p, int verdict, struct aggregator_replies *out, uint64_t at);
