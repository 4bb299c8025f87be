// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The events: each link and each timer has at most one next event, so the heap is small. Of equal times the source with
// the smaller number comes first.
#include "events.h"

#include <stdlib.h>

#include "nodes.h"

#define CHILDREN 4

// Without branches: which one is sooner cannot be foreseen.
static bool sooner(const struct place *a, const struct place *b) {
  return (a->at < b->at) | ((a->at == b->at) & (a->source < b->source));
}

static void put(struct sim *sim, uint32_t index, struct place place) {
  sim->heap[index] = place;
  sim->where[place.source] = index;
}

static void rise(struct sim *sim, uint32_t index, struct place place) {
  while (index > 0) {
    const uint32_t above = (index - 1) / CHILDREN;
    if (!sooner(&place, &sim->heap[above])) break;
    put(sim, index, sim->heap[above]);
    index = above;
  }
  put(sim, index, place);
}

static void sink(struct sim *sim, uint32_t index, struct place place) {
  for (;;) {
    const uint32_t first = index * CHILDREN + 1;
    if (first >= sim->sources) break;
    const struct place *heap = sim->heap;
    uint32_t least = first;
    if (first + CHILDREN <= sim->sources) {
      const uint32_t one = first + sooner(&heap[first + 1], &heap[first]);
      const uint32_t other = first + 2 + sooner(&heap[first + 3], &heap[first + 2]);
      least = one + (other - one) * sooner(&heap[other], &heap[one]);
    } else {
      for (uint32_t child = first + 1; child < sim->sources; child++)
        if (sooner(&heap[child], &heap[least])) least = child;
    }
    if (!sooner(&sim->heap[least], &place)) break;
    put(sim, index, sim->heap[least]);
    index = least;
  }
  put(sim, index, place);
}

void event_set(struct sim *sim, uint32_t source, ps at) {
  const uint32_t index = sim->where[source];
  const ps before = sim->heap[index].at;
  if (at == before) return;
  const struct place place = {.at = at, .source = source};
  if (at < before) rise(sim, index, place);
  else sink(sim, index, place);
}

void events_ready(struct sim *sim) {
  sim->sources = sim->link_count + sim->timer_count;
  sim->heap = calloc(sim->sources, sizeof *sim->heap);
  sim->where = calloc(sim->sources, sizeof *sim->where);
  for (uint32_t source = 0; source < sim->sources; source++) put(sim, source, (struct place){NEVER, source, 0});
}

void sim_set(struct sim *sim, uint32_t timer, ps at) { event_set(sim, sim->link_count + timer, at); }

// Runs until no task is open, nothing happens any more, or this time or so many events are over. Returns whether all
// tasks have ended.
bool sim_run(struct sim *sim, ps until, uint64_t events) {
  const uint64_t last = sim->events + events;
  while (sim->tasks_open && sim->sources && sim->events < last) {
    const struct place next = sim->heap[0];
    if (next.at == NEVER || next.at > until) break;
    sim->now = next.at;
    sim->events++;
    // One of these is next. Their links are far apart in memory.
    for (uint32_t child = 1; child <= CHILDREN && child < sim->sources; child++) {
      const uint32_t source = sim->heap[child].source;
      if (source < sim->link_count) __builtin_prefetch(&sim->links[source]);
    }
    if (next.source < sim->link_count) {
      link_event(sim, next.source);
    } else {
      const struct timer *timer = &sim->timers[next.source - sim->link_count];
      event_set(sim, next.source, NEVER);
      timer->fire(sim, timer->who);
    }
  }
  return sim->tasks_open == 0;
}

// SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t sim_draw(struct sim *sim) {
  uint64_t mixed = sim->random += 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

bool sim_happens(struct sim *sim, uint32_t of_all) { return of_all && (uint32_t)(sim_draw(sim) >> 32) < of_all; }
