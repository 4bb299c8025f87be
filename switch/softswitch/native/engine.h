// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The interface between a generated program, the run-time library and the ports.
//
// A number wider than 64 bits is a sequence of limbs: 64-bit words in the machine's byte order, the least significant
// first.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SS_GROUPS 65536u
#define SS_SESSIONS 32768u
// Numbers of this width and more are aligned to it, so that they load as whole vectors.
#define SS_WIDE_BITS 512u

// ---------------------------------------------------------------- frames that leave

struct ss_frame {
  uint32_t port;
  uint32_t length;
  uint8_t *data;
#ifdef SS_CHECK_WRITES
  size_t reserved;  // a truncated frame is written whole before it is cut
#endif
};

// Frames are collected in an arena. When it has no room for another frame, `flush` makes room.
struct ss_sink {
  uint8_t *arena;
  size_t capacity;
  size_t used;
  struct ss_frame *frames;
  uint32_t count;
  uint32_t limit;
  void (*flush)(struct ss_sink *sink);
  void *owner;
#ifdef SS_CHECK_WRITES
  size_t reserved;
#endif
};

// Reserves room for a frame of `length` bytes; NULL if it is longer than the arena. Commit it before the next one.
static inline uint8_t *ss_reserve(struct ss_sink *sink, size_t length) {
  if (__builtin_expect(sink->count == sink->limit || sink->capacity - sink->used < length, 0)) {
    sink->flush(sink);
    if (sink->count == sink->limit || sink->capacity - sink->used < length) return NULL;
  }
#ifdef SS_CHECK_WRITES
  sink->reserved = length;
#endif
  return sink->arena + sink->used;
}

static inline void ss_commit(struct ss_sink *sink, uint32_t port, size_t length) {
  sink->frames[sink->count] = (struct ss_frame){.port = port, .length = (uint32_t)length, .data = sink->arena + sink->used};
#ifdef SS_CHECK_WRITES
  sink->frames[sink->count].reserved = sink->reserved;
#endif
  sink->count++;
  // Rounded up, so that every frame starts on a cache line.
  size_t next = sink->used + ((length + 63) & ~(size_t)63);
  sink->used = next < sink->capacity ? next : sink->capacity;
}

// ---------------------------------------------------------------- state of a loaded program

struct ss_meter;  // below

// One row of a table, or its default action.
struct ss_entry {
  uint32_t action;       // position in the table's list of actions
  uint32_t hit;          // 0 for the default action
  uint64_t *cell;        // direct counter {packets, bytes}, NULL without one
  const uint64_t *args;  // action data, see ss_program
  struct ss_meter *meter;  // direct meter, NULL where it was never configured
};

// `action` of an entry that has several: `args` are their count and the addresses of their entries.
#define SS_SET UINT32_MAX

struct ss_table;  // lookup.h

struct ss_replica {
  uint32_t port;
  uint32_t instance;
};

struct ss_group {
  const struct ss_replica *replicas;
  uint32_t count;  // 0: no such group
};

// Where the clones of a session go: to its own replicas, and to those of a multicast group (0: none).
struct ss_session {
  const struct ss_replica *replicas;
  uint32_t count;
  uint32_t group;
  uint32_t set;  // 0: no such session
};

// Members of a parser value set: `limbs` of values, then as many of masks, each.
struct ss_value_set {
  const uint64_t *keys;
  uint32_t count;
};

static inline int ss_in_set(const struct ss_value_set *set, const uint64_t *key, uint32_t limbs) {
  for (uint32_t i = 0; i < set->count; i++) {
    const uint64_t *values = set->keys + (size_t)i * 2 * limbs;
    uint64_t different = 0;
    for (uint32_t j = 0; j < limbs; j++) different |= (key[j] & values[limbs + j]) ^ values[j];
    if (different == 0) return 1;
  }
  return 0;
}

// A token bucket. `rate`: tokens per microsecond.
struct ss_bucket {
  double rate;
  uint64_t burst, tokens, last;
};

struct ss_meter {
  struct ss_bucket buckets[2];  // peak, committed
  uint64_t since_us;
  uint64_t configured;
};

// The colour of a packet that takes `wanted` tokens: 0 green, 1 yellow, 2 red.
static inline uint64_t ss_execute_meter(struct ss_meter *meter, uint64_t wanted, uint64_t now_us) {
  for (uint32_t i = 0; meter->configured && i < 2; i++) {
    struct ss_bucket *bucket = &meter->buckets[i];
    const double all = (double)(now_us - meter->since_us) * bucket->rate;
    const uint64_t earned = all < 9e18 ? (uint64_t)all : (uint64_t)9e18;
    const uint64_t tokens = bucket->tokens + (earned > bucket->last ? earned - bucket->last : 0);
    bucket->tokens = tokens < bucket->burst ? tokens : bucket->burst;
    bucket->last = earned;
    if (bucket->tokens < wanted) return 2 - i;
    bucket->tokens -= wanted;
  }
  return 0;
}

// `stride`: limbs from one cell to the next. Arrays start on a cache line.
struct ss_array {
  uint32_t size;
  uint32_t stride;
};

struct ss_machine;

// Runs one frame that came in at `port`; frames that leave go to the sink. Reads and writes nothing outside
// frame[0..length) and the sink. `now_us`: P4's timestamps, in microseconds.
typedef void ss_process_fn(struct ss_machine *machine, uint32_t port, const uint8_t *frame, uint32_t length,
                           uint64_t now_us, struct ss_sink *sink);

// What a generated program exports, as `const struct ss_program ss_program`.
//
// A number of W bits takes one limb for W <= 64, else W / 64 limbs rounded up; from SS_WIDE_BITS on, a multiple of 8
// limbs. Unused bits are 0. Action data are the parameters one after the other; a parameter of SS_WIDE_BITS or more
// starts at a multiple of 8 limbs. A key is its fields in the table's order, without gaps.
struct ss_program {
  uint32_t tables;
  uint32_t registers;
  uint32_t counters;  // indirect ones; a cell is {packets, bytes}
  const struct ss_array *register_arrays;
  const struct ss_array *counter_arrays;
  ss_process_fn *process;
  uint32_t value_sets;
  uint32_t meters;  // indirect ones
  const uint32_t *meter_sizes;
};

struct ss_machine {
  const struct ss_program *program;
  struct ss_table **tables;  // in the order of ir.Program.tables
  uint64_t **registers;      // in the order of ir.Program.registers
  uint64_t **counters;       // in the order of the indirect ones of ir.Program.counters
  struct ss_group *groups;   // SS_GROUPS of them
  struct ss_session *sessions;  // SS_SESSIONS of them
  uint64_t lost_passes;      // clones, resubmits and recirculations that were too many for one frame
  struct ss_value_set *value_sets;
  struct ss_meter **meters;
  uint64_t *random;          // state of the switch's generator
  // P4's log_msg: the number of the message in the program, and its values one after the other.
  void (*log)(struct ss_machine *machine, uint32_t message, const uint64_t *values);
};

// ---------------------------------------------------------------- random numbers

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
static inline uint64_t ss_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
