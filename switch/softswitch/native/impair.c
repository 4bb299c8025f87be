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

struct ss_lane {
  struct ss_lane_spec spec;
  struct ss_lane_counters counters;
  struct held *held;  // the first `count` hold frames, the others up to `capacity` only their memory
  uint32_t count;
  uint32_t capacity;
};

struct ss_lane *ss_lane_new(const struct ss_lane_spec *spec) {
  struct ss_lane *lane = calloc(1, sizeof *lane);
  if (lane != NULL) lane->spec = *spec;
  return lane;
}

void ss_lane_free(struct ss_lane *lane) {
  if (lane == NULL) return;
  for (uint32_t i = 0; i < lane->capacity; i++) free(lane->held[i].data);
  free(lane->held);
  free(lane);
}

static int happens(struct ss_lane *lane, double probability) {
  // 53 bits: what a double in 0..1 holds exactly.
  return (double)(ss_random(&lane->spec.state) >> 11) * 0x1p-53 < probability;
}

// The next free place, with room for `length` bytes; NULL without memory.
static struct held *room(struct ss_lane *lane, uint32_t length) {
  if (lane->count == lane->capacity) {
    uint32_t capacity = lane->capacity == 0 ? 8 : 2 * lane->capacity;
    struct held *more = realloc(lane->held, capacity * sizeof *more);
    if (more == NULL) return NULL;
    memset(more + lane->capacity, 0, (capacity - lane->capacity) * sizeof *more);
    lane->held = more;
    lane->capacity = capacity;
  }
  struct held *place = &lane->held[lane->count];
  if (place->capacity < length) {
    uint8_t *data = realloc(place->data, length);
    if (data == NULL) return NULL;
    place->data = data;
    place->capacity = length;
  }
  return place;
}

static int hold(struct ss_lane *lane, const uint8_t *frame, uint32_t length, uint32_t frames, uint64_t deadline) {
  struct held *place = room(lane, length);
  if (place == NULL) return 0;
  if (length != 0) memcpy(place->data, frame, length);
  place->length = length;
  place->frames_left = frames;
  place->deadline = deadline;
  lane->count++;
  return 1;
}

static void release(struct ss_lane *lane, uint64_t now_ns, ss_pass_fn *pass, void *to) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < lane->count; i++) {
    struct held *one = &lane->held[i];
    if (one->frames_left == 0 || one->deadline <= now_ns) {
      pass(to, one->data, one->length);
      continue;
    }
    // Changed places: those that stay keep their order, those that went keep their memory.
    struct held stays = *one;
    *one = lane->held[kept];
    lane->held[kept++] = stays;
  }
  lane->count = kept;
}

void ss_lane_push(struct ss_lane *lane, const uint8_t *frame, uint32_t length, uint64_t now_ns, ss_pass_fn *pass,
                  void *to) {
  const struct ss_lane_spec *spec = &lane->spec;
  // All of them are drawn for every frame, so that its fate depends on its number alone.
  int lost = happens(lane, spec->drop), twice = happens(lane, spec->dup), late = happens(lane, spec->reorder);
  uint64_t draw = ss_random(&lane->spec.state);
  uint32_t frames = 1 + (uint32_t)(((unsigned __int128)draw * spec->overtaken_by) >> 64);
  uint32_t held_before = lane->count, going = lost ? 0 : (uint32_t)!late + (uint32_t)twice;
  if (lost || (late && !hold(lane, frame, length, frames, now_ns + spec->hold_ns))) lane->counters.dropped++;
  else if (late) lane->counters.reordered++;
  if (!lost && twice) lane->counters.duplicated++;
  for (uint32_t i = 0; i < going; i++) pass(to, frame, length);
  if (going != 0) {
    for (uint32_t i = 0; i < held_before; i++) lane->held[i].frames_left--;
  }
  release(lane, now_ns, pass, to);
}

void ss_lane_poll(struct ss_lane *lane, uint64_t now_ns, ss_pass_fn *pass, void *to) {
  release(lane, now_ns, pass, to);
}

uint64_t ss_lane_deadline(const struct ss_lane *lane) {
  uint64_t first = UINT64_MAX;
  for (uint32_t i = 0; i < lane->count; i++) {
    if (lane->held[i].deadline < first) first = lane->held[i].deadline;
  }
  return first;
}

void ss_lane_read_counters(const struct ss_lane *lane, struct ss_lane_counters *out) { *out = lane->counters; }
