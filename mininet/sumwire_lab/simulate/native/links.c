// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Links and their queues. In FIFO order a packet's times are known when it comes, so a link costs one event a packet.
// With levels or ranks a packet waits until the link is free, which is a second event.
#include <stdlib.h>

#include "events.h"
#include "nodes.h"

#define RING_LEAST 8

// ---- rings ---------------------------------------------------------------------------------------------

static struct packet *ring_at(const struct ring *ring, uint32_t place) {
  return &ring->packets[(ring->head + place) & (ring->room - 1)];
}

static void ring_grow(struct ring *ring) {
  const uint32_t room = ring->room ? ring->room * 2 : RING_LEAST;
  struct packet *packets = malloc(room * sizeof *packets);
  for (uint32_t k = 0; k < ring->count; k++) packets[k] = *ring_at(ring, k);
  free(ring->packets);
  ring->packets = packets;
  ring->room = room;
  ring->head = 0;
}

void ring_push(struct ring *ring, const struct packet *packet) {
  if (ring->count == ring->room) ring_grow(ring);
  *ring_at(ring, ring->count++) = *packet;
}

struct packet ring_pop(struct ring *ring) {
  const struct packet packet = *ring_at(ring, 0);
  ring->head = (ring->head + 1) & (ring->room - 1);
  ring->count--;
  return packet;
}

// ---- times ---------------------------------------------------------------------------------------------

ps sim_work(struct sim *sim, uint32_t number, ps length) {
  struct processor *processor = &sim->processors[number];
  ps begin = processor->free_at > sim->now ? processor->free_at : sim->now;
  if (processor->group != NONE) {
    // The core that has been free for the shortest time before it, else the one that is free first.
    struct group *group = &sim->groups[processor->group];
    uint32_t best = 0;
    for (uint32_t core = 1; core < group->cores; core++) {
      const ps mine = group->free_at[core], other = group->free_at[best];
      if (mine <= begin ? other > begin || mine > other : mine < other) best = core;
    }
    if (group->free_at[best] > begin) begin = group->free_at[best];
    group->free_at[best] = begin + length;
  }
  processor->worked += length;
  return processor->free_at = begin + length;
}

// When a packet that gets its turn now has been sent.
static ps sent_at(struct sim *sim, const struct link *link, const struct packet *packet) {
  ps length = packet->bytes * link->byte;
  if (link->rate && !link->byte) length = packet->bytes * BYTE_AT_A_BIT_A_SECOND / link->rate;
  if (link->processor != NONE) return sim_work(sim, link->processor, link->per_packet + length);
  return (link->free_at > sim->now ? link->free_at : sim->now) + length;
}

// ---- queues --------------------------------------------------------------------------------------------

// Takes account of the packets of a FIFO queue that have left it.
static void leave(struct sim *sim, struct link *link) {
  while (link->gone < link->travels.count) {
    const struct packet *packet = ring_at(&link->travels, link->gone);
    if (packet->at - link->delay > sim->now) break;
    link->queued -= packet->bytes;
    link->queued_packets--;
    link->gone++;
  }
}

uint64_t sim_backlog(struct sim *sim, uint32_t number) {
  struct link *link = &sim->links[number];
  if (link->order == FIFO) leave(sim, link);
  return link->queued;
}

// The next event of a link in FIFO order.
static void plan_first(struct sim *sim, const struct link *link, uint32_t number) {
  if (!link->travels.count) return event_set(sim, number, NEVER);
  ps at = ring_at(&link->travels, 0)->at;
  if (link->varies) {
    at += sim_draw(sim) % link->varies;
    if (at < sim->now) at = sim->now;
  }
  event_set(sim, number, at);
}

static void travel(struct sim *sim, struct link *link, uint32_t number, const struct packet *packet) {
  struct packet sent = *packet;
  link->free_at = sent_at(sim, link, packet);
  sent.at = link->free_at + link->delay;
  ring_push(&link->travels, &sent);
  if (link->order == FIFO && link->travels.count == 1) plan_first(sim, link, number);
}

// The next event of a link whose packets wait for it.
static void plan(struct sim *sim, const struct link *link, uint32_t number) {
  ps next = link->travels.count ? ring_at(&link->travels, 0)->at : NEVER;
  if (link->queued_packets && link->free_at < next) next = link->free_at;
  event_set(sim, number, next);
}

static void wait_in(struct link *link, uint32_t level, const struct packet *packet) {
  ring_push(&link->levels[level], packet);
  link->queued += packet->bytes;
  if (level == 0) link->queued_first += packet->bytes;
  link->queued_packets++;
}

static bool is_of_same(const struct packet *a, const struct packet *b) {
  return a->owner == b->owner && a->source == b->source;
}

static void begin_next(struct sim *sim, struct link *link, uint32_t number) {
  uint32_t level = 0;
  while (link->levels[level].count == 0) level++;
  struct ring *ring = &link->levels[level];
  if (link->order == SMALLEST) {
    // pFabric: the most urgent one, but a flow's own keep their order.
    uint32_t best = 0;
    for (uint32_t k = 1; k < ring->count; k++)
      if (ring_at(ring, k)->rank < ring_at(ring, best)->rank) best = k;
    for (uint32_t k = 0; k < best; k++)
      if (is_of_same(ring_at(ring, k), ring_at(ring, best))) best = k;
    const struct packet urgent = *ring_at(ring, best);
    for (; best > 0; best--) *ring_at(ring, best) = *ring_at(ring, best - 1);
    *ring_at(ring, 0) = urgent;
  }
  const struct packet packet = ring_pop(ring);
  link->queued -= packet.bytes;
  if (level == 0) link->queued_first -= packet.bytes;
  link->queued_packets--;
  travel(sim, link, number, &packet);
}

static void lose(struct sim *sim, struct link *link) {
  link->lost++;
  sim->in_flight--;
}

// The queue is full: with ranks the least urgent packet goes. Returns whether there is room for the new one now.
static bool make_room(struct sim *sim, struct link *link, const struct packet *packet) {
  struct ring *ring = &link->levels[0];
  if (link->order != SMALLEST || ring->count == 0) return false;
  uint32_t worst = 0;
  for (uint32_t k = 1; k < ring->count; k++)
    if (ring_at(ring, k)->rank >= ring_at(ring, worst)->rank) worst = k;
  if (ring_at(ring, worst)->rank <= packet->rank) return false;
  link->queued -= ring_at(ring, worst)->bytes;
  link->queued_packets--;
  for (; worst + 1 < ring->count; worst++) *ring_at(ring, worst) = *ring_at(ring, worst + 1);
  ring->count--;
  lose(sim, link);
  return true;
}

static bool is_full(const struct link *link, uint32_t level, uint32_t bytes) {
  if (link->order == LEVELS && link->trim_bytes) {
    // NDP: headers have as many bytes as all the rest, and no packet of either counts for the other.
    const uint64_t queued = level ? link->queued - link->queued_first : link->queued_first;
    return queued + bytes > link->queue_bytes || (level && link->levels[level].count >= link->queue_packets);
  }
  const uint64_t packets = link->order == LEVELS ? link->levels[level].count : link->queued_packets;
  return packets >= link->queue_packets || link->queued + bytes > link->queue_bytes;
}

void sim_send(struct sim *sim, uint32_t number, const struct packet *given) {
  struct link *link = &sim->links[number];
  struct packet packet = *given;
  sim->in_flight++;
  if (sim_happens(sim, link->lose)) return lose(sim, link);
  // What has left a FIFO queue since is only looked at where it decides.
  const bool near = is_full(link, 0, packet.bytes) || link->queued > link->mark_bytes;
  if (link->order == FIFO && near) leave(sim, link);
  uint32_t level = link->order == LEVELS ? packet.level : 0;
  if (is_full(link, level, packet.bytes) && !make_room(sim, link, &packet)) {
    if (!link->trim_bytes || packet.bytes <= link->trim_bytes || packet.marks & TRIMMED) return lose(sim, link);
    packet.marks |= TRIMMED;
    packet.bytes = link->trim_bytes;
    level = packet.level = 0;
    link->trimmed++;
  }
  if (packet.marks & CAPABLE && link->queued > link->mark_bytes) {
    packet.marks |= CONGESTED;
    link->marked++;
  }
  link->packets++;
  link->bytes += packet.bytes;
  if (sim->in_flight > sim->most_in_flight) sim->most_in_flight = sim->in_flight;
  if (link->order == FIFO) {
    link->queued += packet.bytes;
    link->queued_packets++;
    return travel(sim, link, number, &packet);
  }
  if (link->queued_packets || link->free_at > sim->now) wait_in(link, level, &packet);
  else travel(sim, link, number, &packet);
  plan(sim, link, number);
}

void link_event(struct sim *sim, uint32_t number) {
  struct link *link = &sim->links[number];
  if (link->travels.count == 0 || ring_at(&link->travels, 0)->at > sim->now) {
    begin_next(sim, link, number);
    return plan(sim, link, number);
  }
  struct packet packet = ring_pop(&link->travels);
  sim->in_flight--;
  if (link->order == FIFO) {
    if (link->gone) link->gone--;
    else link->queued -= packet.bytes, link->queued_packets--;
    plan_first(sim, link, number);
  } else {
    plan(sim, link, number);
  }
  if (link->then != NONE) sim_send(sim, link->then, &packet);
  else node_take(sim, link->node, &packet);
}
