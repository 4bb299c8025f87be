// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Makes a network, piece by piece, and starts it.
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "flows.h"
#include "jobs.h"
#include "slots.h"
#include "tasks.h"

// Adds one piece to an array of them, and returns its number.
#define ADD(array, count, ...)                                   \
  ({                                                             \
    (array) = realloc((array), ((count) + 1) * sizeof *(array)); \
    (array)[count] = __VA_ARGS__;                                \
    (count)++;                                                   \
  })

struct sim *sim_new(uint64_t seed) {
  struct sim *sim = calloc(1, sizeof *sim);
  sim->random = seed;
  return sim;
}

// Makes a group of cores that its processors share.
uint32_t sim_group(struct sim *sim, uint32_t cores) {
  return ADD(sim->groups, sim->group_count, (struct group){.cores = cores, .free_at = calloc(cores, sizeof(ps))});
}

// Makes a processor. `group`: NONE for a core of its own.
uint32_t sim_processor(struct sim *sim, uint32_t group) {
  return ADD(sim->processors, sim->processor_count, (struct processor){.group = group});
}

uint32_t sim_node(struct sim *sim, uint32_t kind) {
  return ADD(sim->nodes, sim->node_count, (struct node){kind, NONE, NONE, NONE});
}

static ps whole_byte(uint64_t rate) {
  return rate && BYTE_AT_A_BIT_A_SECOND % rate == 0 ? BYTE_AT_A_BIT_A_SECOND / rate : 0;
}

// Makes a link, with the fields of struct link.
uint32_t sim_link(struct sim *sim, uint64_t rate, ps delay, ps per_packet, uint32_t node, uint32_t then,
                  uint32_t processor, uint32_t queue_bytes, uint32_t queue_packets, uint32_t mark_bytes,
                  uint32_t trim_bytes, uint32_t order, uint32_t lose) {
  return ADD(sim->links, sim->link_count,
             (struct link){.rate = rate, .byte = whole_byte(rate), .delay = delay, .per_packet = per_packet, .node = node, .then = then,
                           .processor = processor, .queue_bytes = queue_bytes, .queue_packets = queue_packets,
                           .mark_bytes = mark_bytes, .trim_bytes = trim_bytes, .order = order, .lose = lose});
}

// Lets a link's delay vary, as a host's does, if its order is FIFO. Where nothing varies, flows fall into step: one
// finds room in a full queue each time, and others never (Floyd and Jacobson, "On traffic phase effects", 1992).
void sim_vary(struct sim *sim, uint32_t link, ps varies) { sim->links[link].varies = varies; }

// Sets the link by which a host's packets leave it.
void sim_outbox(struct sim *sim, uint32_t node, uint32_t link) { sim->nodes[node].outbox = link; }

// Sets a switch's routes: an array of struct route, one for each node.
void sim_routes(struct sim *sim, uint32_t node, const void *routes) {
  const uint32_t first = sim->route_count;
  sim->route_count += sim->node_count;
  sim->routes = realloc(sim->routes, sim->route_count * sizeof *sim->routes);
  memcpy(&sim->routes[first], routes, sim->node_count * sizeof *sim->routes);
  sim->nodes[node].routes = first;
}

uint32_t sim_timer(struct sim *sim, fired *fire, uint32_t who) {
  return ADD(sim->timers, sim->timer_count, (struct timer){fire, who});
}

// Begins: afterwards only sim_run changes anything.
void sim_start(struct sim *sim) {
  events_ready(sim);
  flows_start(sim);
  tasks_start(sim);
}

// ---- what is read afterwards -----------------------------------------------------------------------------

struct totals {
  uint64_t now, events, most_in_flight, next;  // next: when something happens, or NEVER
};

struct totals *sim_totals(struct sim *sim, struct totals *totals) {
  *totals = (struct totals){sim->now, sim->events, sim->most_in_flight,
                            sim->sources ? sim->heap[0].at : NEVER};
  return totals;
}

const void *sim_task_array(struct sim *sim) { return sim->tasks; }
const void *sim_link_array(struct sim *sim) { return sim->links; }
const void *sim_processor_array(struct sim *sim) { return sim->processors; }
uint32_t sim_processor_count(struct sim *sim) { return sim->processor_count; }
const void *sim_window_of(struct sim *sim, uint32_t worker) { return sim->workers[worker].window; }

void sim_free(struct sim *sim) {
  for (uint32_t k = 0; k < sim->link_count; k++) {
    free(sim->links[k].travels.packets);
    for (uint32_t level = 0; level < LEVELS_MOST; level++) free(sim->links[k].levels[level].packets);
  }
  for (uint32_t k = 0; k < sim->worker_count; k++) window_free(sim->workers[k].window);
  for (uint32_t k = 0; k < sim->job_count; k++) {
    free(sim->jobs[k].op);
    free(sim->jobs[k].exchange);
  }
  for (uint32_t k = 0; k < sim->tree_count; k++) {
    struct tree *tree = &sim->trees[k];
    void *const parts[] = {tree->child, tree->chunk, tree->count, tree->state, tree->marked, tree->members};
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) free(parts[part]);
  }
  for (uint32_t k = 0; k < sim->group_count; k++) free(sim->groups[k].free_at);
  flows_free(sim);
  void *const arrays[] = {sim->links, sim->nodes, sim->routes, sim->timers, sim->processors, sim->groups, sim->heap,
                          sim->where, sim->tasks, sim->workers, sim->jobs, sim->trees, sim->next_tasks, sim->agenda};
  for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) free(arrays[k]);
  free(sim);
}
