// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Machines: the state that a generated program works on.
#include "runtime.h"

#include <stdlib.h>

#define COLLECTOR_FRAMES 64u
// At most this many bytes of headers are added to one frame.
#define COLLECTOR_GROWTH 65536u
// 64-bit words of one array of registers or counters.
#define MOST_WORDS ((size_t)1 << 32)

// ---------------------------------------------------------------- machines

static void free_arrays(uint64_t **arrays, uint32_t count) {
  for (uint32_t i = 0; arrays != NULL && i < count; i++) free(arrays[i]);
  free(arrays);
}

// NULL without memory. A cell has the limbs that `kinds` says, or `fixed` limbs if that is not 0.
static uint64_t **make_arrays(const struct ss_array *kinds, uint32_t count, uint32_t fixed) {
  uint64_t **arrays = ss_memory(count * sizeof *arrays);
  for (uint32_t i = 0; arrays != NULL && i < count; i++) {
    size_t words = (size_t)kinds[i].size * (fixed ? fixed : kinds[i].stride);
    if (words <= MOST_WORDS) arrays[i] = ss_memory(words * sizeof(uint64_t));
    if (arrays[i] == NULL) {
      free_arrays(arrays, count);
      return NULL;
    }
  }
  return arrays;
}

static int make_meters(struct ss_machine *machine) {
  const struct ss_program *program = machine->program;
  machine->meters = calloc(program->meters + 1, sizeof *machine->meters);
  for (uint32_t i = 0; machine->meters != NULL && i < program->meters; i++) {
    machine->meters[i] = calloc(program->meter_sizes[i] + 1, sizeof *machine->meters[i]);
    if (machine->meters[i] == NULL) return 0;
  }
  return machine->meters != NULL;
}

struct ss_machine *ss_machine_new(const struct ss_program *program, uint64_t *random, ss_log_fn *log) {
  struct ss_machine *machine = ss_memory(sizeof *machine);
  if (machine == NULL) return NULL;
  machine->program = program;
  machine->random = random;
  machine->log = log;
  machine->tables = ss_memory(program->tables * sizeof *machine->tables);
  machine->registers = make_arrays(program->register_arrays, program->registers, 0);
  machine->counters = make_arrays(program->counter_arrays, program->counters, 2);
  machine->groups = calloc(SS_GROUPS, sizeof *machine->groups);
  machine->sessions = calloc(SS_SESSIONS, sizeof *machine->sessions);
  machine->value_sets = calloc(program->value_sets + 1, sizeof *machine->value_sets);
  int made = make_meters(machine);
  if (machine->tables && machine->registers && machine->counters && machine->groups && machine->sessions &&
      machine->value_sets && made) {
    return machine;
  }
  ss_machine_free(machine);
  return NULL;
}

void ss_machine_free(struct ss_machine *machine) {
  for (uint32_t i = 0; machine->tables != NULL && i < machine->program->tables; i++) ss_table_free(machine->tables[i]);
  for (uint32_t i = 0; machine->groups != NULL && i < SS_GROUPS; i++) free((void *)machine->groups[i].replicas);
  free_arrays(machine->registers, machine->program->registers);
  free_arrays(machine->counters, machine->program->counters);
  free(machine->tables);
  for (uint32_t i = 0; machine->sessions != NULL && i < SS_SESSIONS; i++) free((void *)machine->sessions[i].replicas);
  for (uint32_t i = 0; machine->value_sets != NULL && i < machine->program->value_sets; i++) {
    free((void *)machine->value_sets[i].keys);
  }
  for (uint32_t i = 0; machine->meters != NULL && i < machine->program->meters; i++) free(machine->meters[i]);
  free(machine->value_sets);
  free(machine->meters);
  free(machine->groups);
  free(machine->sessions);
  free(machine);
}

int ss_machine_publish(struct ss_machine *machine, uint32_t number, struct ss_table *table) {
  if (number >= machine->program->tables || table == NULL) return 0;
  struct ss_table *before = machine->tables[number];
  machine->tables[number] = table;
  ss_table_free(before);
  return 1;
}

static uint64_t *cells(const struct ss_array *arrays, uint32_t count, uint64_t **found, uint32_t number,
                       uint64_t size) {
  return number < count && arrays[number].size == size ? found[number] : NULL;
}

uint64_t *ss_machine_register(struct ss_machine *machine, uint32_t number, uint64_t size) {
  const struct ss_program *program = machine->program;
  return cells(program->register_arrays, program->registers, machine->registers, number, size);
}

uint64_t *ss_machine_counter(struct ss_machine *machine, uint32_t number, uint64_t size) {
  const struct ss_program *program = machine->program;
  return cells(program->counter_arrays, program->counters, machine->counters, number, size);
}

// A copy of `replicas`; `*done` is 0 without memory.
static struct ss_replica *copied(const struct ss_replica *replicas, uint32_t count, int *done) {
  struct ss_replica *own = count == 0 ? NULL : ss_memory(count * sizeof *own);
  *done = count == 0 || own != NULL;
  if (own != NULL) memcpy(own, replicas, count * sizeof *own);
  return own;
}

int ss_machine_set_group(struct ss_machine *machine, uint32_t group, const struct ss_replica *replicas,
                         uint32_t count) {
  if (group >= SS_GROUPS) return 0;
  int done;
  struct ss_replica *own = copied(replicas, count, &done);
  if (!done) return 0;
  free((void *)machine->groups[group].replicas);
  machine->groups[group] = (struct ss_group){own, count};
  return 1;
}

int ss_machine_set_session(struct ss_machine *machine, uint32_t session, const struct ss_replica *replicas,
                           uint32_t count, uint32_t group, uint32_t set) {
  if (session >= SS_SESSIONS || group >= SS_GROUPS) return 0;
  int done;
  struct ss_replica *own = copied(replicas, count, &done);
  if (!done) return 0;
  free((void *)machine->sessions[session].replicas);
  machine->sessions[session] = (struct ss_session){own, count, group, set};
  return 1;
}

int ss_machine_set_values(struct ss_machine *machine, uint32_t number, const uint64_t *keys, uint32_t limbs,
                          uint32_t count) {
  size_t size = (size_t)limbs * count * sizeof *keys;
  uint64_t *own = count == 0 ? NULL : malloc(size);
  if (number >= machine->program->value_sets || (count != 0 && own == NULL)) {
    free(own);
    return 0;
  }
  if (count != 0) memcpy(own, keys, size);
  free((void *)machine->value_sets[number].keys);
  machine->value_sets[number] = (struct ss_value_set){own, count};
  return 1;
}

int ss_machine_set_meter(struct ss_machine *machine, uint32_t number, uint32_t index, double committed,
                         uint64_t committed_burst, double peak, uint64_t peak_burst, uint64_t now_us,
                         uint32_t configured) {
  if (number >= machine->program->meters || index >= machine->program->meter_sizes[number]) return 0;
  machine->meters[number][index] = (struct ss_meter){
      {{peak, peak_burst, peak_burst, 0}, {committed, committed_burst, committed_burst, 0}}, now_us, configured};
  return 1;
}

uint64_t ss_machine_lost_passes(const struct ss_machine *machine) { return machine->lost_passes; }

// ---------------------------------------------------------------- single packets

static int resize_arena(struct ss_sink *sink, size_t capacity) {
  uint8_t *arena = ss_memory(capacity);
  if (arena == NULL) return 0;
  if (sink->used) memcpy(arena, sink->arena, sink->used);
  for (uint32_t i = 0; i < sink->count; i++) sink->frames[i].data = arena + (sink->frames[i].data - sink->arena);
  free(sink->arena);
  sink->arena = arena;
  sink->capacity = capacity;
  return 1;
}

static int resize_frames(struct ss_sink *sink, uint32_t limit) {
  struct ss_frame *frames = realloc(sink->frames, limit * sizeof *frames);
  if (frames == NULL) return 0;
  sink->frames = frames;
  sink->limit = limit;
  return 1;
}

// Without memory, `owner` is set to the sink itself. An arena of twice the size has room for any frame: see ss_collect.
static void grow(struct ss_sink *sink) {
  int done = sink->count == sink->limit ? resize_frames(sink, 2 * sink->limit) : 1;
  if (!done || !resize_arena(sink, 2 * sink->capacity)) sink->owner = sink;
}

struct ss_sink *ss_collector_new(void) {
  struct ss_sink *sink = ss_memory(sizeof *sink);
  if (sink == NULL) return NULL;
  sink->flush = grow;
  if (resize_frames(sink, COLLECTOR_FRAMES) && resize_arena(sink, 2 * COLLECTOR_GROWTH)) return sink;
  ss_collector_free(sink);
  return NULL;
}

void ss_collector_free(struct ss_sink *sink) {
  free(sink->arena);
  free(sink->frames);
  free(sink);
}

int64_t ss_collect(struct ss_machine *machine, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now_us,
                   struct ss_sink *sink) {
  sink->count = 0;
  sink->used = 0;
  sink->owner = NULL;
  if (sink->capacity < (size_t)length + COLLECTOR_GROWTH && !resize_arena(sink, (size_t)length + COLLECTOR_GROWTH)) {
    return -1;
  }
  machine->program->process(machine, port, frame, length, now_us, sink);
  return sink->owner == NULL ? (int64_t)sink->count : -1;
}

const struct ss_frame *ss_collected(const struct ss_sink *sink) { return sink->frames; }
