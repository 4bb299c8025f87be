// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The authentication tag of a packet (docs/security.md): SipHash-2-4 of header, NH of the payload, and switch.
#pragma once

#include <stdint.h>
#include <string.h>

enum { TAGS_HASH_NUMBERS = SLOT_WORDS * WORD_BYTES / 8, TAGS_HASHED_BYTES = SUMWIRE_BYTES + 16 + 4 };

// Of a job at one switch. `hash`: the universal hash's key; `sip`: SipHash's; `address`: the switch's, as a number.
struct tags_key {
  uint64_t hash[TAGS_HASH_NUMBERS];
  uint64_t sip[2];
  uint32_t address;
  // 0: the job has no key.
  uint32_t present;
};

static inline uint64_t tags_load(const uint8_t *from) {
  uint64_t value;
  memcpy(&value, from, sizeof value);
  return __builtin_bswap64(value);
}

static inline uint64_t tags_rotate(uint64_t number, int by) { return number << by | number >> (64 - by); }

struct tags_sip {
  uint64_t v0, v1, v2, v3;
};

static inline void tags_round(struct tags_sip *s) {
  s->v0 += s->v1;
  s->v2 += s->v3;
  s->v1 = tags_rotate(s->v1, 13) ^ s->v0;
  s->v3 = tags_rotate(s->v3, 16) ^ s->v2;
  s->v0 = tags_rotate(s->v0, 32) + s->v3;
  s->v2 += s->v1;
  s->v1 = tags_rotate(s->v1, 17) ^ s->v2;
  s->v3 = tags_rotate(s->v3, 21) ^ s->v0;
  s->v2 = tags_rotate(s->v2, 32);
}

static inline void tags_take(struct tags_sip *s, uint64_t number) {
  s->v3 ^= number;
  tags_round(s);
  tags_round(s);
  s->v0 ^= number;
}

// Kinds whose worker is its sender. In all others it is the receiver, of which there may be many: it is not hashed.
static inline int tags_from_worker(const uint8_t *head) {
  const int kind = head[0] & 0xF;
  return kind == KIND_CONTRIBUTE || kind == KIND_PROBE;
}

// The tag of a header and `hashed`, the two halves of what stands for the payload.
static inline uint64_t tags_finish(const struct tags_key *key, const uint64_t *sip, const uint8_t *head,
                                   unsigned __int128 hashed) {
  struct tags_sip s = {sip[0] ^ 0x736F6D6570736575u, sip[1] ^ 0x646F72616E646F6Du, sip[0] ^ 0x6C7967656E657261u,
                       sip[1] ^ 0x7465646279746573u};
  // The worker's number is byte 6 of the header.
  tags_take(&s, tags_load(head) & (tags_from_worker(head) ? ~0ull : ~0xFF00ull));
  tags_take(&s, tags_load(head + 8));
  tags_take(&s, tags_load(head + 16));
  tags_take(&s, tags_load(head + 24));
  tags_take(&s, (uint64_t)(hashed >> 64));
  tags_take(&s, (uint64_t)hashed);
  tags_take(&s, (uint64_t)TAGS_HASHED_BYTES << 56 | key->address);
  s.v2 ^= 0xFF;
  for (int i = 0; i < 4; i++) tags_round(&s);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

// `bytes`: of the payload, a multiple of 16.
static inline uint64_t tags_of(const struct tags_key *key, const uint8_t *head, const uint8_t *payload,
                               uint64_t bytes) {
  unsigned __int128 sum = 0;
  for (uint64_t at = 0; at < bytes; at += 16) {
    const uint64_t *own = key->hash + at / 8;
    const uint64_t one = tags_load(payload + at) + own[0], other = tags_load(payload + at + 8) + own[1];
    sum += (unsigned __int128)one * other;
  }
  return tags_finish(key, key->sip, head, sum);
}

static inline void tags_store(uint8_t *to, uint64_t tag) {
  tag = __builtin_bswap64(tag);
  memcpy(to, &tag, sizeof tag);
}
