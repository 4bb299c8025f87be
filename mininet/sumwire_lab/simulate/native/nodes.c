// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#include "nodes.h"

#include "flows.h"
#include "jobs.h"
#include "slots.h"

void node_take(struct sim *sim, uint32_t node, struct packet *packet) {
  const bool here = packet->target == node;
  // A job's packet without its payload is as good as lost.
  if (here && packet->kind <= RESULT && packet->marks & TRIMMED) return;
  const bool adds = here && sim->nodes[node].tree != NONE && packet->kind <= RESULT;
  if (adds) tree_take(sim, node, packet);
  else if (sim->nodes[node].kind == SWITCH) sim_forward(sim, node, packet);
  else if (packet->kind == RESULT) job_result(sim, packet);
  else flow_receive(sim, packet);
}

void sim_forward(struct sim *sim, uint32_t number, const struct packet *packet) {
  const struct node *node = &sim->nodes[number];
  if (node->routes == NONE) return sim_send(sim, node->outbox, packet);
  const struct route *route = &sim->routes[node->routes + packet->target];
  if (route->link == NONE) return;  // nowhere
  sim_send(sim, route->link + (route->width == 1 ? 0 : packet->path % route->width), packet);
}
