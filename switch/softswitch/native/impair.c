// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0

#include "impair.h"

#include "engine.h"

#include <stdlib.h>
#include <string.h>

struct held {
  uint8_t *data;  // kept for the next frame when this one is gone
  uint32_t capacity;
  uint32_t length;
  uint32_t frames_left;
  uint64_t deadline;
};

struct delayed {
  uint8_t *data;
  uint32_t length;
  uint64_t due;
};

struct ss_impair {
  struct ss_impair_spec spec;
  struct ss_impair_counters counters;
  struct held *held;  // the first `count` hold frames, the others up to `capacity` only their memory
  uint32_t count;
  uint32_t capacity;
  struct delayed *line;  // a ring of `places`, the oldest frame at `first`
  uint32_t first, waiting, places;
};

// Where frames go that are neither lost nor held.
struct way {
  struct ss_impair *impair;
  uint64_t now_ns;
  ss_pass_fn *pass;
  void *to;
};

struct ss_impair *ss_impair_new(const struct ss_impair_spec *spec) {
  struct ss_impair *impair = calloc(1, sizeof *impair);
  if (impair != NULL) impair->spec = *spec;
  return impair;
}

void ss_impair_free(struct ss_impair *impair) {
  if (impair == NULL) return;
  for (uint32_t i = 0; i < impair->capacity; i++) free(impair->held[i].data);
  free(impair->held);
  for (uint32_t i = 0; i < impair->waiting; i++) free(impair->line[(impair->first + i) % impair->places].data);
  free(impair->line);
  free(impair);
}

static int happens(struct ss_impair *impair, double probability) {
  // 53 bits: what a double in 0..1 holds exactly.
  return (double)(ss_random(&impair->spec.state) >> 11) * 0x1p-53 < probability;
}

// The next free place, with room for `length` bytes; NULL without memory.
static struct held *room(struct ss_impair *impair, uint32_t length) {
  if (impair->count == impair->capacity) {
    uint32_t capacity = impair->capacity == 0 ? 8 : 2 * impair->capacity;
    struct held *more = realloc(impair->held, capacity * sizeof *more);
    if (more == NULL) return NULL;
    memset(more + impair->capacity, 0, (capacity - impair->capacity) * sizeof *more);
    impair->held = more;
    impair->capacity = capacity;
  }
  struct held *place = &impair->held[impair->count];
  if (place->capacity < length) {
    uint8_t *data = realloc(place->data, length);
    if (data == NULL) return NULL;
    place->data = data;
    place->capacity = length;
  }
  return place;
}

static int hold(struct ss_impair *impair, const uint8_t *frame, uint32_t length, uint32_t frames, uint64_t deadline) {
  struct held *place = room(impair, length);
  if (place == NULL) return 0;
  if (length != 0) memcpy(place->data, frame, length);
  place->length = length;
  place->frames_left = frames;
  place->deadline = deadline;
  impair->count++;
  return 1;
}

// Makes place for one more frame in the line; 0 without memory.
static int longer(struct ss_impair *impair) {
  if (impair->waiting < impair->places) return 1;
  uint32_t places = impair->places == 0 ? 64 : 2 * impair->places;
  struct delayed *line = malloc(places * sizeof *line);
  if (line == NULL) return 0;
  for (uint32_t i = 0; i < impair->waiting; i++) line[i] = impair->line[(impair->first + i) % impair->places];
  free(impair->line);
  impair->line = line;
  impair->places = places;
  impair->first = 0;
  return 1;
}

static void go_on(const struct way *way, const uint8_t *frame, uint32_t length) {
  struct ss_impair *impair = way->impair;
  if (impair->spec.delay_ns == 0) {
    way->pass(way->to, frame, length);
    return;
  }
  uint8_t *data = longer(impair) ? malloc(length + 1) : NULL;
  if (data == NULL) {
    impair->counters.dropped++;
    return;
  }
  memcpy(data, frame, length);
  uint32_t last = (impair->first + impair->waiting++) % impair->places;
  impair->line[last] = (struct delayed){data, length, way->now_ns + impair->spec.delay_ns};
}

// Frames whose delay is over.
static void arrive(struct ss_impair *impair, uint64_t now_ns, ss_pass_fn *pass, void *to) {
  while (impair->waiting != 0 && impair->line[impair->first].due <= now_ns) {
    struct delayed *one = &impair->line[impair->first];
    pass(to, one->data, one->length);
    free(one->data);
    impair->first = (impair->first + 1) % impair->places;
    impair->waiting--;
  }
}

static void release(struct ss_impair *impair, const struct way *way) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < impair->count; i++) {
    struct held *one = &impair->held[i];
    if (one->frames_left == 0 || one->deadline <= way->now_ns) {
      go_on(way, one->data, one->length);
      continue;
    }
    // Changed places: those that stay keep their order, those that went keep their memory.
    struct held stays = *one;
    *one = impair->held[kept];
    impair->held[kept++] = stays;
  }
  impair->count = kept;
}

void ss_impair_push(struct ss_impair *impair, const uint8_t *frame, uint32_t length, uint64_t now_ns, ss_pass_fn *pass,
                    void *to) {
  const struct ss_impair_spec *spec = &impair->spec;
  // All of them are drawn for every frame, so that its fate depends on its number alone.
  int lost = happens(impair, spec->drop), twice = happens(impair, spec->dup), late = happens(impair, spec->reorder);
  uint64_t draw = ss_random(&impair->spec.state);
  uint32_t frames = 1 + (uint32_t)(((unsigned __int128)draw * spec->overtaken_by) >> 64);
  const struct way way = {impair, now_ns, pass, to};
  uint32_t held_before = impair->count, going = lost ? 0 : (uint32_t)!late + (uint32_t)twice;
  if (lost || (late && !hold(impair, frame, length, frames, now_ns + spec->hold_ns))) impair->counters.dropped++;
  else if (late) impair->counters.reordered++;
  if (!lost && twice) impair->counters.duplicated++;
  for (uint32_t i = 0; i < going; i++) go_on(&way, frame, length);
  if (going != 0) {
    for (uint32_t i = 0; i < held_before; i++) impair->held[i].frames_left--;
  }
  release(impair, &way);
  arrive(impair, now_ns, pass, to);
}

void ss_impair_poll(struct ss_impair *impair, uint64_t now_ns, ss_pass_fn *pass, void *to) {
  const struct way way = {impair, now_ns, pass, to};
  release(impair, &way);
  arrive(impair, now_ns, pass, to);
}

uint64_t ss_impair_deadline(const struct ss_impair *impair) {
  uint64_t first = impair->waiting == 0 ? UINT64_MAX : impair->line[impair->first].due;
  for (uint32_t i = 0; i < impair->count; i++) {
    if (impair->held[i].deadline < first) first = impair->held[i].deadline;
  }
  return first;
}

void ss_impair_read_counters(const struct ss_impair *impair, struct ss_impair_counters *out) {
  *out = impair->counters;
}
