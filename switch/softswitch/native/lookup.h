// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables as packets use them; tables.c builds them. The look-ups are inlined, so that the number of limbs of a key is a
// constant.
#pragma once

#include "engine.h"

// A published table changes between two packets only.
struct ss_table {
  // Places of 1 + limbs words each: the address of an entry (0: free) and its key. An exact table has all its rows
  // here, by open addressing. The other tables have a memo of answers here; each key has only one possible place.
  uint64_t *places;
  uint64_t last;   // number of places - 1
  uint32_t shift;  // right shift of a hash that gives the number of a place
  const struct ss_entry *fallback;
  // The best row that matches, else `fallback`; NULL in exact tables.
  const struct ss_entry *(*scan)(const struct ss_table *table, const uint64_t *key);
};

#define SS_INLINE static inline __attribute__((always_inline))

// Fibonacci hashing: the upper bits are well mixed.
SS_INLINE uint64_t ss_hash(const uint64_t *key, uint32_t limbs) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < limbs; i++) hash = (((hash << 5) | (hash >> 59)) ^ key[i]) * 0x9E3779B97F4A7C15u;
  return hash;
}

SS_INLINE uint64_t *ss_place(const struct ss_table *table, uint64_t number, uint32_t limbs) {
  return table->places + number * (limbs + 1);
}

SS_INLINE const struct ss_entry *ss_entry_at(const uint64_t *place) {
  return (const struct ss_entry *)(uintptr_t)place[0];
}

SS_INLINE int ss_same_key(const uint64_t *place, const uint64_t *key, uint32_t limbs) {
  uint64_t different = 0;
  for (uint32_t i = 0; i < limbs; i++) different |= place[1 + i] ^ key[i];
  return different == 0;
}

// The default entry, which is all that a table without keys has.
SS_INLINE const struct ss_entry *ss_default(const struct ss_table *table) { return table->fallback; }

// Each returns the default entry on a miss, never NULL.
SS_INLINE const struct ss_entry *ss_lookup_exact(const struct ss_table *table, const uint64_t *key, uint32_t limbs) {
  uint64_t number = ss_hash(key, limbs) >> table->shift;
  for (;;) {
    const uint64_t *place = ss_place(table, number, limbs);
    const struct ss_entry *entry = ss_entry_at(place);
    if (entry == NULL) return table->fallback;
    if (__builtin_expect(ss_same_key(place, key, limbs), 1)) return entry;
    number = (number + 1) & table->last;
  }
}

// Ternary, range, and mixed keys.
SS_INLINE const struct ss_entry *ss_lookup_ranked(const struct ss_table *table, const uint64_t *key, uint32_t limbs) {
  uint64_t *place = ss_place(table, ss_hash(key, limbs) >> table->shift, limbs);
  const struct ss_entry *entry = ss_entry_at(place);
  if (__builtin_expect(entry != NULL && ss_same_key(place, key, limbs), 1)) return entry;
  entry = table->scan(table, key);
  place[0] = (uint64_t)(uintptr_t)entry;
  for (uint32_t i = 0; i < limbs; i++) place[1 + i] = key[i];
  return entry;
}

SS_INLINE const struct ss_entry *ss_lookup_lpm(const struct ss_table *table, const uint64_t *key, uint32_t limbs) {
  return ss_lookup_ranked(table, key, limbs);
}
