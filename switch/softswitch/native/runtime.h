// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The run-time library as Python calls it. The caller holds the lock, except for objects that are not yet part of a
// machine. Without memory, functions that return a pointer return NULL, and the others that need memory return 0.
#pragma once

#include "engine.h"
#include "lookup.h"

#define SS_LINE 64u  // bytes of a cache line

// A row or a default action. It can be part of several published tables, one after the other.
struct ss_row {
  struct ss_entry entry;
  uint64_t cell[2];        // direct counter: packets, bytes
  const uint64_t *first;   // the key: values, or lower ends of ranges
  const uint64_t *second;  // masks, or upper ends of ranges; NULL in exact tables
};

// One field of a key.
struct ss_field {
  uint32_t limbs;
  uint32_t range;  // low..high instead of value and mask
};

// Zeroed memory at the start of a cache line.
void *ss_memory(size_t size_bytes);

// ---- rows: `key` has key_limbs values, then, if `masked`, as many masks or upper ends

struct ss_row *ss_row_new(uint32_t action, uint32_t hit, const uint64_t *args, size_t arg_limbs, const uint64_t *key,
                          size_t key_limbs, int masked, int counted);
// `count` rows of one action, all of them hits; `args` and `keys` have those of one after those of the other. 0, and no
// rows, without memory.
int ss_rows_new(uint32_t action, const uint64_t *args, size_t arg_limbs, const uint64_t *keys, size_t key_limbs,
                int masked, int counted, size_t count, struct ss_row **rows);
void ss_row_free(struct ss_row *row);
uint64_t *ss_row_cell(struct ss_row *row);
// Of the row's direct meter. 0 without memory.
int ss_row_set_meter(struct ss_row *row, double committed, uint64_t committed_burst, double peak, uint64_t peak_burst,
                     uint64_t now_us, uint32_t configured);

// ---- tables

// Kinds: a list of rows, the best first; a hash table, which looks at values only; a hash table for each prefix length.
enum { SS_RANKED, SS_EXACT, SS_PREFIX };

struct ss_table *ss_table_new(const struct ss_field *fields, uint32_t field_count, uint32_t kind,
                              const struct ss_row *const *rows, size_t row_count, const struct ss_row *fallback);
// Takes rows out, by their keys, and then puts others in, each in the place of the one with its key. With `fallback` the
// default action is that. 0, and nothing has changed, without memory or for a table of kind SS_RANKED.
int ss_table_change(struct ss_table *table, const struct ss_row *const *removed, size_t removed_count,
                    const struct ss_row *const *put, size_t put_count, const struct ss_row *fallback);
void ss_table_free(struct ss_table *table);

// ---- machines

typedef void ss_log_fn(struct ss_machine *machine, uint32_t message, const uint64_t *values);

struct ss_machine *ss_machine_new(const struct ss_program *program, uint64_t *random, ss_log_fn *log);
void ss_machine_free(struct ss_machine *machine);
// Frees the table published before. 0 if there is no table of this number, or without `table`.
int ss_machine_publish(struct ss_machine *machine, uint32_t number, struct ss_table *table);
// NULL if there is no array of this number with `size` cells.
uint64_t *ss_machine_register(struct ss_machine *machine, uint32_t number, uint64_t size);
uint64_t *ss_machine_counter(struct ss_machine *machine, uint32_t number, uint64_t size);
// 0 without memory, or for a group from SS_GROUPS on.
int ss_machine_set_group(struct ss_machine *machine, uint32_t group, const struct ss_replica *replicas, uint32_t count);
// Likewise, from SS_SESSIONS on. Without `set` the session is deleted.
int ss_machine_set_session(struct ss_machine *machine, uint32_t session, const struct ss_replica *replicas,
                           uint32_t count, uint32_t group, uint32_t set);
// `keys`: `count` keys of `limbs` each.
int ss_machine_set_values(struct ss_machine *machine, uint32_t number, const uint64_t *keys, uint32_t limbs,
                          uint32_t count);
// Rates in units per microsecond; not `configured`: all packets are green. 0 if there is no such meter.
int ss_machine_set_meter(struct ss_machine *machine, uint32_t number, uint32_t index, double committed,
                         uint64_t committed_burst, double peak, uint64_t peak_burst, uint64_t now_us,
                         uint32_t configured);
uint64_t ss_machine_lost_passes(const struct ss_machine *machine);

// ---- single packets

// Collects frames in memory that grows.
struct ss_sink *ss_collector_new(void);
void ss_collector_free(struct ss_sink *sink);
// Runs one frame; returns the number of frames that left, -1 without memory. They stay in the sink until the next call.
int64_t ss_collect(struct ss_machine *machine, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now_us,
                   struct ss_sink *sink);
const struct ss_frame *ss_collected(const struct ss_sink *sink);
