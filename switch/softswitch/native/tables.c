// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows, and tables built from them.
#include <stdlib.h>

#include "runtime.h"

#define MEMO_PLACES 1024u

// A table, with the parts that look-ups do not inline.
struct whole_table {
  struct ss_table table;
  // For `scan`: rules of 2 x limbs words (values, then masks or upper ends), the best first.
  uint64_t *rules;
  const struct ss_entry **entries;
  size_t count;
  uint32_t limbs;
  uint32_t field_count;
  struct ss_field *fields;
};

void *ss_memory(size_t size_bytes) {
  size_t whole = (size_bytes + SS_LINE - 1) / SS_LINE * SS_LINE;
  void *memory = aligned_alloc(SS_LINE, whole ? whole : SS_LINE);
  return memory ? memset(memory, 0, whole) : NULL;
}

// ---------------------------------------------------------------- rows

struct ss_row *ss_row_new(uint32_t action, uint32_t hit, const uint64_t *args, size_t arg_limbs, const uint64_t *key,
                          size_t key_limbs, int masked, int counted) {
  _Static_assert(sizeof(struct ss_row) <= SS_LINE, "action data start on the next cache line");
  size_t key_words = key_limbs * (masked ? 2 : 1);
  uint8_t *memory = ss_memory(SS_LINE + (arg_limbs + key_words) * sizeof(uint64_t));
  if (memory == NULL) return NULL;
  struct ss_row *row = (struct ss_row *)memory;
  uint64_t *own_args = (uint64_t *)(memory + SS_LINE);
  uint64_t *own_key = own_args + arg_limbs;
  if (arg_limbs) memcpy(own_args, args, arg_limbs * sizeof(uint64_t));
  if (key_words) memcpy(own_key, key, key_words * sizeof(uint64_t));
  row->entry = (struct ss_entry){action, hit, counted ? row->cell : NULL, own_args};
  row->first = own_key;
  row->second = masked ? own_key + key_limbs : NULL;
  return row;
}

void ss_row_free(struct ss_row *row) { free(row); }

uint64_t *ss_row_cell(struct ss_row *row) { return row->cell; }

// ---------------------------------------------------------------- scans

static int mask_matches(const uint64_t *rule, const uint64_t *key, uint32_t limbs, uint32_t stride) {
  uint64_t different = 0;
  for (uint32_t i = 0; i < limbs; i++) different |= (key[i] ^ rule[i]) & rule[stride + i];
  return different == 0;
}

static int at_most(const uint64_t *left, const uint64_t *right, uint32_t limbs) {
  for (uint32_t i = limbs; i-- > 0;) {
    if (left[i] != right[i]) return left[i] < right[i];
  }
  return 1;
}

SS_INLINE const struct ss_entry *scan_masks(const struct ss_table *table, const uint64_t *key, uint32_t limbs) {
  const struct whole_table *whole = (const struct whole_table *)table;
  const uint64_t *rule = whole->rules;
  for (size_t i = 0; i < whole->count; i++, rule += 2 * limbs) {
    if (mask_matches(rule, key, limbs, limbs)) return whole->entries[i];
  }
  return table->fallback;
}

static const struct ss_entry *scan_one_limb(const struct ss_table *table, const uint64_t *key) {
  return scan_masks(table, key, 1);
}

static const struct ss_entry *scan_limbs(const struct ss_table *table, const uint64_t *key) {
  return scan_masks(table, key, ((const struct whole_table *)table)->limbs);
}

static int fields_match(const struct whole_table *whole, const uint64_t *rule, const uint64_t *key) {
  for (uint32_t i = 0; i < whole->field_count; i++) {
    uint32_t limbs = whole->fields[i].limbs;
    int matches = whole->fields[i].range ? at_most(rule, key, limbs) && at_most(key, rule + whole->limbs, limbs)
                                         : mask_matches(rule, key, limbs, whole->limbs);
    if (!matches) return 0;
    rule += limbs;
    key += limbs;
  }
  return 1;
}

static const struct ss_entry *scan_fields(const struct ss_table *table, const uint64_t *key) {
  const struct whole_table *whole = (const struct whole_table *)table;
  for (size_t i = 0; i < whole->count; i++) {
    if (fields_match(whole, whole->rules + i * 2 * whole->limbs, key)) return whole->entries[i];
  }
  return table->fallback;
}

// ---------------------------------------------------------------- tables

// Makes a power of two of places: at least `wanted`, and at least 2 (a shift of the hash by 64 is undefined).
static int make_places(struct whole_table *whole, size_t wanted) {
  uint64_t places = 2;
  uint32_t shift = 63;
  while (places < wanted) {
    places *= 2;
    shift--;
  }
  whole->table.places = ss_memory(places * (1 + whole->limbs) * sizeof(uint64_t));
  whole->table.last = places - 1;
  whole->table.shift = shift;
  return whole->table.places != NULL;
}

static int fill_exact(struct whole_table *whole, const struct ss_row *const *rows) {
  const struct ss_table *table = &whole->table;
  if (!make_places(whole, 2 * whole->count)) return 0;
  for (size_t i = 0; i < whole->count; i++) {
    const uint64_t *key = rows[i]->first;
    uint64_t number = ss_hash(key, whole->limbs) >> table->shift;
    while (ss_entry_at(ss_place(table, number, whole->limbs)) != NULL) number = (number + 1) & table->last;
    uint64_t *place = ss_place(table, number, whole->limbs);
    place[0] = (uint64_t)(uintptr_t)&rows[i]->entry;
    memcpy(place + 1, key, whole->limbs * sizeof(uint64_t));
  }
  return 1;
}

static int fill_ranked(struct whole_table *whole, const struct ss_row *const *rows) {
  size_t field_bytes = whole->limbs * sizeof(uint64_t);
  int ranges = 0;
  for (uint32_t i = 0; i < whole->field_count; i++) ranges |= whole->fields[i].range != 0;
  whole->table.scan = ranges ? scan_fields : whole->limbs == 1 ? scan_one_limb : scan_limbs;
  whole->rules = ss_memory(whole->count * 2 * field_bytes);
  whole->entries = ss_memory(whole->count * sizeof(struct ss_entry *));
  if (!whole->rules || !whole->entries || !make_places(whole, MEMO_PLACES)) return 0;
  for (size_t i = 0; i < whole->count; i++) {
    uint64_t *rule = whole->rules + i * 2 * whole->limbs;
    memcpy(rule, rows[i]->first, field_bytes);
    memcpy(rule + whole->limbs, rows[i]->second, field_bytes);
    whole->entries[i] = &rows[i]->entry;
  }
  return 1;
}

struct ss_table *ss_table_new(const struct ss_field *fields, uint32_t field_count, int exact,
                              const struct ss_row *const *rows, size_t row_count, const struct ss_row *fallback) {
  struct whole_table *whole = ss_memory(sizeof *whole);
  if (whole == NULL) return NULL;
  whole->table.fallback = &fallback->entry;
  whole->count = row_count;
  whole->field_count = field_count;
  whole->fields = ss_memory(field_count * sizeof *fields);
  if (whole->fields != NULL) {
    for (uint32_t i = 0; i < field_count; i++) {
      whole->fields[i] = fields[i];
      whole->limbs += fields[i].limbs;
    }
    if (exact ? fill_exact(whole, rows) : fill_ranked(whole, rows)) return &whole->table;
  }
  ss_table_free(&whole->table);
  return NULL;
}

void ss_table_free(struct ss_table *table) {
  struct whole_table *whole = (struct whole_table *)table;
  if (whole == NULL) return;
  free(whole->table.places);
  free(whole->rules);
  free((void *)whole->entries);
  free(whole->fields);
  free(whole);
}
