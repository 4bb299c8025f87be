// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows, and tables built from them.
#include <stdlib.h>

#include "runtime.h"

#define MEMO_PLACES 1024u

// The rows of a prefix table with one prefix length: an exact table of masked keys.
struct prefixes {
  struct ss_table rows;
  uint64_t *mask;
  size_t count;
  size_t coming;  // rows that the change in progress adds
};

// A table, with the parts that look-ups do not inline.
struct whole_table {
  struct ss_table table;
  uint32_t kind;
  // Of a prefix table, the longest prefix first.
  struct prefixes *prefixes;
  size_t prefix_count;
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
  row->entry = (struct ss_entry){action, hit, counted ? row->cell : NULL, own_args, NULL};
  row->first = own_key;
  row->second = masked ? own_key + key_limbs : NULL;
  return row;
}

void ss_row_free(struct ss_row *row) {
  if (row != NULL) free(row->entry.meter);
  free(row);
}

int ss_rows_new(uint32_t action, const uint64_t *args, size_t arg_limbs, const uint64_t *keys, size_t key_limbs,
                int masked, int counted, size_t count, struct ss_row **rows) {
  size_t key_words = key_limbs * (masked ? 2 : 1);
  for (size_t i = 0; i < count; i++) {
    rows[i] = ss_row_new(action, 1, args + i * arg_limbs, arg_limbs, keys + i * key_words, key_limbs, masked, counted);
    if (rows[i] != NULL) continue;
    while (i > 0) ss_row_free(rows[--i]);
    return 0;
  }
  return 1;
}

int ss_row_set_meter(struct ss_row *row, double committed, uint64_t committed_burst, double peak, uint64_t peak_burst,
                     uint64_t now_us, uint32_t configured) {
  if (row->entry.meter == NULL) row->entry.meter = malloc(sizeof *row->entry.meter);
  if (row->entry.meter == NULL) return 0;
  *row->entry.meter = (struct ss_meter){
      {{peak, peak_burst, peak_burst, 0}, {committed, committed_burst, committed_burst, 0}}, now_us, configured};
  return 1;
}

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

// The longest prefix that the key has. A key has at most 64 fields of 2048 bits, so `masked` takes 16 KB of stack.
static const struct ss_entry *scan_prefixes(const struct ss_table *table, const uint64_t *key) {
  const struct whole_table *whole = (const struct whole_table *)table;
  uint64_t masked[whole->limbs];
  for (size_t i = 0; i < whole->prefix_count; i++) {
    const struct prefixes *prefixes = &whole->prefixes[i];
    for (uint32_t j = 0; j < whole->limbs; j++) masked[j] = key[j] & prefixes->mask[j];
    const struct ss_entry *entry = ss_lookup_exact(&prefixes->rows, masked, whole->limbs);
    if (entry != NULL) return entry;
  }
  return table->fallback;
}

// ---------------------------------------------------------------- places

// Makes a power of two of places: at least `wanted`, and at least 2 (a shift of the hash by 64 is undefined).
static int make_places(struct ss_table *table, uint32_t limbs, size_t wanted) {
  uint64_t places = 2;
  uint32_t shift = 63;
  while (places < wanted) {
    places *= 2;
    shift--;
  }
  uint64_t *memory = ss_memory(places * (1 + limbs) * sizeof(uint64_t));
  if (memory == NULL) return 0;
  table->places = memory;
  table->last = places - 1;
  table->shift = shift;
  return 1;
}

// The place of this key, or the free one where it belongs.
static uint64_t *find_place(const struct ss_table *table, uint32_t limbs, const uint64_t *key) {
  uint64_t number = ss_hash(key, limbs) >> table->shift;
  for (;;) {
    uint64_t *place = ss_place(table, number, limbs);
    if (ss_entry_at(place) == NULL || ss_same_key(place, key, limbs)) return place;
    number = (number + 1) & table->last;
  }
}

// 1 where the key is new. There must be a free place.
static size_t put_place(struct ss_table *table, uint32_t limbs, const uint64_t *key, uint64_t entry) {
  uint64_t *place = find_place(table, limbs, key);
  size_t new_key = ss_entry_at(place) == NULL;
  place[0] = entry;
  memcpy(place + 1, key, limbs * sizeof(uint64_t));
  return new_key;
}

// At least twice as many places as rows. They grow by half as much again, so that rows one by one cost no more.
static int reserve_places(struct ss_table *table, uint32_t limbs, size_t rows) {
  if (table->places != NULL && 2 * rows <= table->last + 1) return 1;
  struct ss_table before = *table;
  if (!make_places(table, limbs, 3 * rows)) return 0;
  for (uint64_t i = 0; before.places != NULL && i <= before.last; i++) {
    const uint64_t *place = ss_place(&before, i, limbs);
    if (ss_entry_at(place) != NULL) put_place(table, limbs, place + 1, place[0]);
  }
  free(before.places);
  return 1;
}

// 1 where the key was there. Later rows of its run move up, so that none lies behind a free place (Knuth, 6.4, R).
static size_t remove_place(struct ss_table *table, uint32_t limbs, const uint64_t *key) {
  uint64_t *place = find_place(table, limbs, key);
  if (ss_entry_at(place) == NULL) return 0;
  uint64_t hole = (uint64_t)(place - table->places) / (limbs + 1);
  for (uint64_t next = (hole + 1) & table->last;; next = (next + 1) & table->last) {
    const uint64_t *other = ss_place(table, next, limbs);
    if (ss_entry_at(other) == NULL) break;
    uint64_t home = ss_hash(other + 1, limbs) >> table->shift;
    if (((next - home) & table->last) < ((next - hole) & table->last)) continue;
    memcpy(ss_place(table, hole, limbs), other, (limbs + 1) * sizeof(uint64_t));
    hole = next;
  }
  ss_place(table, hole, limbs)[0] = 0;
  return 1;
}

// ---------------------------------------------------------------- prefixes

static int bits_of(const uint64_t *mask, uint32_t limbs) {
  int bits = 0;
  for (uint32_t i = 0; i < limbs; i++) bits += __builtin_popcountll(mask[i]);
  return bits;
}

static struct prefixes *find_prefixes(const struct whole_table *whole, const uint64_t *mask) {
  for (size_t i = 0; i < whole->prefix_count; i++) {
    if (memcmp(whole->prefixes[i].mask, mask, whole->limbs * sizeof(uint64_t)) == 0) return &whole->prefixes[i];
  }
  return NULL;
}

// NULL without memory. The other fields of the key are exact, so the mask with the most bits is the longest prefix.
static struct prefixes *make_prefixes(struct whole_table *whole, const uint64_t *mask) {
  size_t bytes = whole->limbs * sizeof(uint64_t);
  struct prefixes *all = realloc(whole->prefixes, (whole->prefix_count + 1) * sizeof *all);
  if (all == NULL) return NULL;
  whole->prefixes = all;
  struct prefixes new_one = {.mask = ss_memory(bytes)};
  if (new_one.mask == NULL) return NULL;
  if (!make_places(&new_one.rows, whole->limbs, 0)) {
    free(new_one.mask);
    return NULL;
  }
  memcpy(new_one.mask, mask, bytes);
  size_t at = 0;
  while (at < whole->prefix_count && bits_of(all[at].mask, whole->limbs) > bits_of(mask, whole->limbs)) at++;
  memmove(all + at + 1, all + at, (whole->prefix_count - at) * sizeof *all);
  all[at] = new_one;
  whole->prefix_count++;
  return &all[at];
}

static int reserve_prefixes(struct whole_table *whole, const struct ss_row *const *rows, size_t count) {
  for (size_t i = 0; i < whole->prefix_count; i++) whole->prefixes[i].coming = 0;
  for (size_t i = 0; i < count; i++) {
    struct prefixes *found = find_prefixes(whole, rows[i]->second);
    if (found == NULL) found = make_prefixes(whole, rows[i]->second);
    if (found == NULL) return 0;
    found->coming++;
  }
  for (size_t i = 0; i < whole->prefix_count; i++) {
    struct prefixes *each = &whole->prefixes[i];
    if (!reserve_places(&each->rows, whole->limbs, each->count + each->coming)) return 0;
  }
  return 1;
}

static void drop_empty_prefixes(struct whole_table *whole) {
  size_t kept = 0;
  for (size_t i = 0; i < whole->prefix_count; i++) {
    struct prefixes each = whole->prefixes[i];
    if (each.count) {
      whole->prefixes[kept++] = each;
      continue;
    }
    free(each.rows.places);
    free(each.mask);
  }
  whole->prefix_count = kept;
}

// ---------------------------------------------------------------- tables

static int fill_ranked(struct whole_table *whole, const struct ss_row *const *rows, size_t count) {
  size_t field_bytes = whole->limbs * sizeof(uint64_t);
  int ranges = 0;
  for (uint32_t i = 0; i < whole->field_count; i++) ranges |= whole->fields[i].range != 0;
  whole->table.scan = ranges ? scan_fields : whole->limbs == 1 ? scan_one_limb : scan_limbs;
  whole->rules = ss_memory(count * 2 * field_bytes);
  whole->entries = ss_memory(count * sizeof(struct ss_entry *));
  if (!whole->rules || !whole->entries || !make_places(&whole->table, whole->limbs, MEMO_PLACES)) return 0;
  whole->count = count;
  for (size_t i = 0; i < count; i++) {
    uint64_t *rule = whole->rules + i * 2 * whole->limbs;
    memcpy(rule, rows[i]->first, field_bytes);
    memcpy(rule + whole->limbs, rows[i]->second, field_bytes);
    whole->entries[i] = &rows[i]->entry;
  }
  return 1;
}

// Empty; then rows are put into it.
static int begin(struct whole_table *whole) {
  if (whole->kind != SS_PREFIX) return make_places(&whole->table, whole->limbs, 0);
  whole->table.scan = scan_prefixes;
  return make_places(&whole->table, whole->limbs, MEMO_PLACES);
}

static int fill(struct whole_table *whole, const struct ss_row *const *rows, size_t count) {
  if (whole->kind == SS_RANKED) return fill_ranked(whole, rows, count);
  return begin(whole) && ss_table_change(&whole->table, NULL, 0, rows, count, NULL);
}

struct ss_table *ss_table_new(const struct ss_field *fields, uint32_t field_count, uint32_t kind,
                              const struct ss_row *const *rows, size_t row_count, const struct ss_row *fallback) {
  struct whole_table *whole = ss_memory(sizeof *whole);
  if (whole == NULL) return NULL;
  whole->table.fallback = &fallback->entry;
  whole->kind = kind;
  whole->field_count = field_count;
  whole->fields = ss_memory(field_count * sizeof *fields);
  if (whole->fields != NULL) {
    for (uint32_t i = 0; i < field_count; i++) {
      whole->fields[i] = fields[i];
      whole->limbs += fields[i].limbs;
    }
    if (fill(whole, rows, row_count)) return &whole->table;
  }
  ss_table_free(&whole->table);
  return NULL;
}

static void change_prefixes(struct whole_table *whole, const struct ss_row *const *removed, size_t removed_count,
                            const struct ss_row *const *put, size_t put_count) {
  for (size_t i = 0; i < removed_count; i++) {
    struct prefixes *found = find_prefixes(whole, removed[i]->second);
    if (found != NULL) found->count -= remove_place(&found->rows, whole->limbs, removed[i]->first);
  }
  for (size_t i = 0; i < put_count; i++) {
    struct prefixes *found = find_prefixes(whole, put[i]->second);
    found->count += put_place(&found->rows, whole->limbs, put[i]->first, (uint64_t)(uintptr_t)&put[i]->entry);
  }
  drop_empty_prefixes(whole);
  memset(whole->table.places, 0, (whole->table.last + 1) * (1 + whole->limbs) * sizeof(uint64_t));  // the memo
}

int ss_table_change(struct ss_table *table, const struct ss_row *const *removed, size_t removed_count,
                    const struct ss_row *const *put, size_t put_count, const struct ss_row *fallback) {
  struct whole_table *whole = (struct whole_table *)table;
  if (whole->kind == SS_RANKED) return 0;
  if (whole->kind == SS_PREFIX) {
    if (!reserve_prefixes(whole, put, put_count)) return 0;
    change_prefixes(whole, removed, removed_count, put, put_count);
  } else {
    if (!reserve_places(table, whole->limbs, whole->count + put_count)) return 0;
    for (size_t i = 0; i < removed_count; i++) whole->count -= remove_place(table, whole->limbs, removed[i]->first);
    for (size_t i = 0; i < put_count; i++) {
      whole->count += put_place(table, whole->limbs, put[i]->first, (uint64_t)(uintptr_t)&put[i]->entry);
    }
  }
  if (fallback != NULL) table->fallback = &fallback->entry;
  return 1;
}

void ss_table_free(struct ss_table *table) {
  struct whole_table *whole = (struct whole_table *)table;
  if (whole == NULL) return;
  for (size_t i = 0; i < whole->prefix_count; i++) whole->prefixes[i].count = 0;
  drop_empty_prefixes(whole);
  free(whole->prefixes);
  free(whole->table.places);
  free(whole->rules);
  free((void *)whole->entries);
  free(whole->fields);
  free(whole);
}
