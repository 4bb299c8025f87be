// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs a compiled program on mutated frames, to be built with sanitizers: fuzz STATE PACKETS SEED
//
// A frame that comes to a point of the program where none was before is kept, and mutated in its turn.
//
// Every frame lies in a memory block of exactly its size, so that a read past its end is found. Frames that leave are
// checked for writes past their ends. Impairments (loss, duplication, reordering) run before and after the program.
#include "impair.h"
#include "runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_BYTES 4096u     // of a mutated frame
#define ARENA_BYTES 65536u   // of the sink: a few frames, so that it is flushed often
#define CANARY 0xA5
#define NEW_TABLES_EVERY 65536u
#define MOST_KEPT 4096u

// Of a program with coverage.
extern uint64_t ss_reached[];
extern const uint32_t ss_points;
extern uint32_t ss_new_points;

extern const struct ss_program ss_program;
void __sanitizer_set_death_callback(void (*callback)(void));

// ---------------------------------------------------------------- the state that Python wrote

struct words {
  const uint64_t *at, *end;
};

static uint64_t take(struct words *words) {
  if (words->at == words->end) {
    fprintf(stderr, "fuzz: the state ends too early\n");
    exit(2);
  }
  return *words->at++;
}

static const uint64_t *take_many(struct words *words, size_t count) {
  if ((size_t)(words->end - words->at) < count) {
    fprintf(stderr, "fuzz: the state ends too early\n");
    exit(2);
  }
  words->at += count;
  return words->at - count;
}

static struct words read_words(const char *name) {
  FILE *file = fopen(name, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    perror(name);
    exit(2);
  }
  size_t size = (size_t)ftell(file);
  uint64_t *words = malloc(size + 8);
  rewind(file);
  if (words == NULL || fread(words, 1, size, file) != size) {
    perror(name);
    exit(2);
  }
  fclose(file);
  return (struct words){words, words + size / 8};
}

struct table {
  struct ss_field *fields;
  uint32_t field_count;
  uint32_t kind;
  struct ss_row **rows;
  size_t row_count;
  struct ss_row *fallback;
};

struct frame {
  uint32_t port, length;
  const uint8_t *data;
};

static struct ss_row *read_row(struct words *words) {
  uint32_t action = (uint32_t)take(words), hit = (uint32_t)take(words);
  int masked = (int)take(words), counted = (int)take(words);
  size_t arg_limbs = take(words), key_limbs = take(words);
  const uint64_t *args = take_many(words, arg_limbs);
  const uint64_t *key = take_many(words, key_limbs * (masked ? 2 : 1));
  return ss_row_new(action, hit, args, arg_limbs, key, key_limbs, masked, counted);
}

static struct table read_table(struct words *words) {
  struct table table = {.kind = (uint32_t)take(words)};
  table.field_count = (uint32_t)take(words);
  table.fields = malloc(table.field_count * sizeof *table.fields + 1);
  for (uint32_t i = 0; i < table.field_count; i++) {
    table.fields[i].limbs = (uint32_t)take(words);
    table.fields[i].range = (uint32_t)take(words);
  }
  table.fallback = read_row(words);
  table.row_count = take(words);
  table.rows = malloc(table.row_count * sizeof *table.rows + 1);
  for (size_t i = 0; i < table.row_count; i++) table.rows[i] = read_row(words);
  return table;
}

static void read_groups(struct words *words, struct ss_machine *machine) {
  for (uint64_t left = take(words); left > 0; left--) {
    uint32_t group = (uint32_t)take(words), count = (uint32_t)take(words);
    struct ss_replica *replicas = malloc(count * sizeof *replicas + 1);
    for (uint32_t i = 0; i < count; i++) replicas[i] = (struct ss_replica){(uint32_t)take(words), (uint32_t)take(words)};
    ss_machine_set_group(machine, group, replicas, count);
    free(replicas);
  }
}

// ---------------------------------------------------------------- mutations

static uint64_t seed_state;

static uint32_t below(uint32_t end) { return (uint32_t)((ss_random(&seed_state) >> 32) * end >> 32); }

static void change_byte(uint8_t *data, uint32_t length) {
  static const uint8_t extremes[] = {0, 1, 0x7F, 0x80, 0xFF};
  data[below(length)] = below(2) ? extremes[below(sizeof extremes)] : (uint8_t)below(256);
}

// A run of 2, 4 or 8 bytes becomes all zeros, all ones, or a small number.
static void change_field(uint8_t *data, uint32_t length) {
  uint32_t size = 2u << below(3);
  if (size > length) return;
  uint8_t *field = data + below(length - size + 1);
  memset(field, below(2) ? 0xFF : 0, size);
  if (below(2)) field[size - 1] = (uint8_t)below(32);
}

static uint32_t splice(uint8_t *data, uint32_t length, const struct frame *other) {
  uint32_t from = other->length ? below(other->length) : 0, to = length ? below(length) : 0;
  uint32_t size = other->length - from;
  if (size > MOST_BYTES - to) size = MOST_BYTES - to;
  if (size != 0) memcpy(data + to, other->data + from, size);
  return to + size > length || below(2) ? to + size : length;
}

static uint32_t grow(uint8_t *data, uint32_t length) {
  uint32_t more = below(8) ? below(64) : below(MOST_BYTES);
  if (more > MOST_BYTES - length) more = MOST_BYTES - length;
  for (uint32_t i = 0; i < more; i++) data[length + i] = (uint8_t)below(256);
  return length + more;
}

// `data` has room for MOST_BYTES; returns the new length. One frame in three stays whole, so that state builds up.
static uint32_t mutate(uint8_t *data, uint32_t length, const struct frame *other) {
  for (uint32_t left = below(3) ? below(5) : 0; left > 0; left--) {
    switch (below(8)) {
      case 0: length = length ? below(length + 1) : 0; break;
      case 1: length = grow(data, length); break;
      case 2: length = splice(data, length, other); break;
      case 3: case 4: if (length) change_field(data, length); break;
      case 5: if (length) data[below(length)] ^= (uint8_t)(1u << below(8)); break;
      default: if (length) change_byte(data, length); break;
    }
  }
  return length;
}

// ---------------------------------------------------------------- running

static struct {
  struct ss_machine *machine;
  struct ss_sink sink;
  struct ss_frame frames[64];
  struct ss_impair *inbound, *outbound;
  uint32_t port;
  uint64_t packets, sent, bytes, now_ns;
  uint8_t *current;  // the frame that is running
  uint32_t current_length;
  struct frame *starts;  // frames that were given, and those that were kept
  uint32_t start_count, start_room, points;
} run;

static void tell_packet(void) {
  fprintf(stderr, "fuzz: packet %" PRIu64 ", port %u, %u bytes: ", run.packets, run.port, run.current_length);
  for (uint32_t i = 0; i < run.current_length && i < 256; i++) fprintf(stderr, "%02x", run.current[i]);
  fprintf(stderr, "\n");
}

static void fail(const char *why, uint64_t value) {
  fprintf(stderr, "fuzz: %s: %" PRIu64 "\n", why, value);
  tell_packet();
  exit(1);
}

static void leave(void *to, const uint8_t *frame, uint32_t length) {
  (void)to;
  run.sent++;
  run.bytes += length;
  // Read to its last byte.
  if (length != 0 && frame[0] + frame[length - 1] > 510) fail("a byte above 255", length);
}

// Takes the frames in the arena, and checks that nothing was written outside them.
static void flush(struct ss_sink *sink) {
  const uint8_t *end = sink->arena;
  for (uint32_t i = 0; i < sink->count; i++) {
    const struct ss_frame *frame = &sink->frames[i];
    if (frame->port >= 512) fail("a frame for a port above 511", frame->port);
    for (const uint8_t *gap = end; gap < frame->data; gap++) {
      if (*gap != CANARY) fail("written behind the end of a frame, at", (uint64_t)(gap - sink->arena));
    }
    if (end < frame->data + frame->reserved) end = frame->data + frame->reserved;
    ss_impair_push(run.outbound, frame->data, frame->length, run.now_ns, leave, NULL);
  }
  size_t written = (size_t)(end - sink->arena) > sink->used ? (size_t)(end - sink->arena) : sink->used;
  size_t look = written + 4096 < sink->capacity ? written + 4096 : sink->capacity;
  for (const uint8_t *gap = end; gap < sink->arena + look; gap++) {
    if (*gap != CANARY) fail("written behind the end of the last frame, at", (uint64_t)(gap - sink->arena));
  }
  memset(sink->arena, CANARY, written);
  sink->count = 0;
  sink->used = 0;
}

static void keep(uint32_t port, const uint8_t *frame, uint32_t length) {
  run.points = ss_new_points;
  if (run.start_count == run.start_room || length > MOST_BYTES) return;
  uint8_t *copy = malloc(length ? length : 1);
  memcpy(copy, frame, length);
  run.starts[run.start_count++] = (struct frame){port, length, copy};
}

static void arrive(void *to, const uint8_t *frame, uint32_t length) {
  (void)to;
  run.current = malloc(length ? length : 1);
  run.current_length = length;
  if (length != 0) memcpy(run.current, frame, length);
  // A block without bytes: reading even one is an error.
  if (length == 0) run.current = realloc(run.current, 1);
  ss_program.process(run.machine, run.port, length ? run.current : run.current + 1, length, run.now_ns / 1000,
                     &run.sink);
  if (ss_new_points != run.points) keep(run.port, frame, length);
  free(run.current);
  run.current = NULL;
  run.current_length = 0;
  // Sometimes frames of several packets together, sometimes of one.
  if (below(4) == 0) flush(&run.sink);
}

// Publishes most often all rows, sometimes only some.
static void publish(struct table *table, uint32_t number) {
  const struct ss_row **rows = malloc(table->row_count * sizeof *rows + 1);
  size_t count = 0;
  int thin = below(4) == 0;
  for (size_t i = 0; i < table->row_count; i++) {
    if (!thin || below(8)) rows[count++] = table->rows[i];
  }
  ss_machine_publish(run.machine, number, ss_table_new(table->fields, table->field_count, table->kind, rows, count,
                                                       table->fallback));
  free(rows);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void step(void) {
  uint8_t data[MOST_BYTES];
  const struct frame *chosen = &run.starts[below(run.start_count)];
  memcpy(data, chosen->data, chosen->length);
  uint32_t length = mutate(data, chosen->length, &run.starts[below(run.start_count)]);
  run.port = below(16) ? chosen->port : below(512);
  run.now_ns += below(1000000);
  ss_impair_push(run.inbound, data, length, run.now_ns, arrive, NULL);
  if (below(16) == 0) {
    ss_impair_poll(run.inbound, run.now_ns, arrive, NULL);
    ss_impair_poll(run.outbound, run.now_ns, leave, NULL);
  }
}

static void log_nothing(struct ss_machine *machine, uint32_t message, const uint64_t *values) {
  (void)machine, (void)message, (void)values;
}

static void set_up(struct words *words, struct table **tables) {
  run.machine = ss_machine_new(&ss_program, &seed_state, log_nothing);
  *tables = malloc(ss_program.tables * sizeof **tables + 1);
  for (uint32_t i = 0; i < ss_program.tables; i++) {
    (*tables)[i] = read_table(words);
    publish(&(*tables)[i], i);
  }
  read_groups(words, run.machine);
  // Of programs that clone: each session to two ports, some to a group as well.
  static const struct ss_replica copies[] = {{1, 7}, {2, 8}};
  for (uint32_t i = 0; i < 16; i++) ss_machine_set_session(run.machine, i, copies, 2, i & 1, 1);
  run.sink = (struct ss_sink){.arena = ss_memory(ARENA_BYTES), .capacity = ARENA_BYTES, .frames = run.frames,
                              .limit = sizeof run.frames / sizeof run.frames[0], .flush = flush};
  memset(run.sink.arena, CANARY, ARENA_BYTES);
  struct ss_impair_spec spec = {.drop = 0.01, .dup = 0.02, .reorder = 0.05, .state = seed_state, .hold_ns = 5000000,
                              .overtaken_by = 3};
  run.inbound = ss_impair_new(&spec);
  run.outbound = ss_impair_new(&spec);
}

static void read_frames(struct words *words) {
  run.start_count = (uint32_t)take(words);
  run.start_room = run.start_count + MOST_KEPT;
  run.starts = malloc(run.start_room * sizeof *run.starts);
  for (uint32_t i = 0; i < run.start_count; i++) {
    uint32_t port = (uint32_t)take(words), length = (uint32_t)take(words);
    run.starts[i] = (struct frame){port, length, (const uint8_t *)take_many(words, (length + 7) / 8)};
  }
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: fuzz STATE PACKETS SEED\n");
    return 2;
  }
  uint64_t packets = strtoull(argv[2], NULL, 10);
  seed_state = strtoull(argv[3], NULL, 10);
  __sanitizer_set_death_callback(tell_packet);
  struct words words = read_words(argv[1]);
  struct table *tables;
  set_up(&words, &tables);
  read_frames(&words);
  double start = seconds(), told = start;
  for (run.packets = 0; run.packets < packets; run.packets++) {
    step();
    if (run.packets % NEW_TABLES_EVERY == NEW_TABLES_EVERY - 1) {
      for (uint32_t i = 0; i < ss_program.tables; i++) publish(&tables[i], i);
    }
    if ((run.packets & 0xFFF) == 0 && seconds() - told > 10) {
      told = seconds();
      fprintf(stderr, "fuzz: %" PRIu64 " packets, %.0f/s\n", run.packets, (double)run.packets / (told - start));
    }
  }
  flush(&run.sink);
  printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %.3f", run.packets, run.sent, run.bytes, seconds() - start);
  for (uint32_t i = 0; i < ss_points; i++) printf(" %d", ss_reached[i] != 0);
  printf("\n");
  return 0;
}
