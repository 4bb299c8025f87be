// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#include "slots.h"

#include <stdlib.h>
#include <string.h>

#include "jobs.h"

static void send_result(struct sim *sim, const struct tree *tree, const struct packet *packet, uint32_t seat,
                        uint8_t marks) {
  const struct packet result = {
      .source = tree->node, .target = tree->child[seat].node, .owner = tree->job, .number = packet->number,
      .more = tree->child[seat].who, .bytes = sim->jobs[tree->job].op[packet->rank].down, .rank = packet->rank,
      .kind = RESULT, .level = packet->level, .marks = marks, .path = packet->path,
  };
  sim_forward(sim, tree->node, &result);
}

static void close_slot(struct sim *sim, struct tree *tree, const struct packet *packet, uint32_t slot) {
  tree->state[slot] = CLOSED;
  const uint8_t marks = CAPABLE | (tree->marked[slot] ? CONGESTED : 0);
  for (uint32_t seat = 0; seat < tree->children; seat++) send_result(sim, tree, packet, seat, marks);
}

static void send_up(struct sim *sim, struct tree *tree, const struct packet *packet, uint32_t slot, uint8_t again) {
  tree->state[slot] = WAITS_ABOVE;
  const struct packet partial = {
      .source = tree->node, .target = tree->above + packet->number % tree->paths, .owner = tree->job,
      .number = packet->number, .more = tree->seat, .bytes = sim->jobs[tree->job].op[packet->rank].partial,
      .rank = packet->rank, .kind = PARTIAL, .level = packet->level, .path = packet->path,
      .marks = (uint8_t)(CAPABLE | (tree->marked[slot] ? CONGESTED : 0) | again),
  };
  sim_forward(sim, tree->node, &partial);
}

static void begin_round(struct tree *tree, uint32_t slot, uint32_t number) {
  tree->chunk[slot] = number;
  tree->count[slot] = 0;
  tree->state[slot] = OPEN;
  tree->marked[slot] = 0;
  memset(&tree->members[(size_t)slot * tree->words], 0, tree->words * sizeof *tree->members);
}

static void from_above(struct sim *sim, struct tree *tree, const struct packet *packet, uint32_t slot) {
  const bool older = tree->chunk[slot] != NONE && packet->number < tree->chunk[slot];
  if (older || (packet->number == tree->chunk[slot] && tree->state[slot] == CLOSED)) {
    tree->known++;
    return;
  }
  if (packet->number != tree->chunk[slot]) begin_round(tree, slot, packet->number);
  tree->down++;
  tree->marked[slot] |= packet->marks & CONGESTED;
  close_slot(sim, tree, packet, slot);
}

void tree_take(struct sim *sim, uint32_t node, const struct packet *packet) {
  struct tree *tree = &sim->trees[sim->nodes[node].tree];
  while (tree->job != packet->owner) tree = &sim->trees[tree->next];
  const uint32_t slot = packet->number % tree->slots, seat = packet->more;
  if (packet->kind == RESULT) return from_above(sim, tree, packet, slot);
  if (tree->chunk[slot] == NONE || packet->number > tree->chunk[slot]) {
    begin_round(tree, slot, packet->number);
    tree->first++;
  } else if (packet->number < tree->chunk[slot]) {
    tree->stale++;
    return;
  }
  if (tree->state[slot] == CLOSED) {
    tree->duplicate++;
    return send_result(sim, tree, packet, seat, CAPABLE | (tree->marked[slot] ? CONGESTED : 0));
  }
  uint64_t *members = &tree->members[(size_t)slot * tree->words + seat / 64];
  if (*members >> seat % 64 & 1) {
    if (tree->state[slot] != WAITS_ABOVE) {
      tree->repeat++;
      return;
    }
    tree->ask++;
    return send_up(sim, tree, packet, slot, AGAIN);
  }
  *members |= UINT64_C(1) << seat % 64;
  tree->marked[slot] |= packet->marks & CONGESTED;
  if (++tree->count[slot] < tree->children) {
    tree->added++;
    return;
  }
  tree->last++;
  if (tree->above != NONE) send_up(sim, tree, packet, slot, 0);
  else close_slot(sim, tree, packet, slot);
}

// Gives a node slots for a job. `above`, `paths`, `seat`: the nodes above it that share its chunks, NONE for a root, and
// its seat there. `children`: an array of struct child, which is copied.
uint32_t sim_tree(struct sim *sim, uint32_t job, uint32_t node, uint32_t above, uint32_t paths, uint32_t seat,
                  uint32_t count, const void *children) {
  const uint32_t slots = sim->jobs[job].slots;
  struct tree tree = {.node = node, .job = job, .above = above, .paths = paths, .seat = seat, .children = count,
                      .slots = slots, .words = (count + 63) / 64, .next = sim->nodes[node].tree};
  tree.child = malloc(count * sizeof *tree.child);
  memcpy(tree.child, children, count * sizeof *tree.child);
  tree.chunk = malloc(slots * sizeof *tree.chunk);
  for (uint32_t slot = 0; slot < slots; slot++) tree.chunk[slot] = NONE;
  tree.count = calloc(slots, sizeof *tree.count);
  tree.state = calloc(slots, sizeof *tree.state);
  tree.marked = calloc(slots, sizeof *tree.marked);
  tree.members = calloc((size_t)slots * tree.words, sizeof *tree.members);
  sim->trees = realloc(sim->trees, (sim->tree_count + 1) * sizeof tree);
  sim->trees[sim->tree_count] = tree;
  sim->nodes[node].tree = sim->tree_count;
  return sim->tree_count++;
}
