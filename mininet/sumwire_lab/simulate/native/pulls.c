// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// NDP (Handley et al., SIGCOMM 2017). A message's first window goes out at the link's rate, unasked. For each segment
// that arrives, and for each that was trimmed to its header, the receiver asks its sender for one more: its PULLs leave
// at the pace at which whole segments fit its link, one flow after the other. A trimmed segment is also refused at
// once, and its turn comes with a PULL, before new ones.
//
// A PULL that its sender has no use for is not sent, and the sender may send a segment more unasked instead: its window
// is whole again when the next message comes. The receiver knows as much from the mark of the last packet in the paper;
// here it looks. Left out: headers that return to their sender when they find no room; a time-out does their work.
#include "connection.h"

static void pulls_fire(struct sim *sim, uint32_t keeper);

void ndp_make(struct sim *sim, struct flow *flow) {
  const uint32_t number = flow - sim->flows;
  struct ndp *ndp = &flow->ndp;
  ndp->next = ndp->head = ndp->tail = NONE;
  for (uint32_t other = number; other-- > 0;) {
    if (sim->flows[other].control != NDP || sim->flows[other].target != flow->target) continue;
    ndp->keeper = sim->flows[other].ndp.keeper;
    return;
  }
  ndp->keeper = number;
  ndp->timer = sim_timer(sim, pulls_fire, number);
}

void ndp_begin(struct sim *sim, struct flow *flow) {
  (void)sim;
  flow->ndp.credit = flow->most;
}

// ---- the sender ------------------------------------------------------------------------------------------

void ndp_send(struct sim *sim, struct flow *flow) {
  flow->timeout_at = sim->now + flow_timeout(flow);
  for (uint32_t turn; flow->ndp.credit && (turn = flow_turn(flow)) == flow->next; flow->ndp.credit--)
    flow_transmit(sim, flow, turn);
}

static void send_asked(struct sim *sim, struct flow *flow, uint32_t count) {
  for (; count; count--) {
    const uint32_t turn = flow_turn(flow);
    if (turn == NONE) flow->ndp.credit++;
    else flow_transmit(sim, flow, turn);
  }
}

void ndp_pulled(struct sim *sim, struct flow *flow, uint32_t number) {
  // Numbers count PULLs, so one that arrives stands for lost ones before it too.
  if (!before(flow->ndp.answered, number)) return;
  const uint32_t count = number - flow->ndp.answered;
  flow->ndp.answered = number;
  flow->timeout_at = sim->now + flow_timeout(flow);
  send_asked(sim, flow, count);
}

void ndp_acknowledged(struct flow *flow, const struct packet *packet) {
  const uint32_t number = packet->number + (packet->more >> 16);
  if (!(packet->marks & AGAIN) || before(number, flow->una) || !before(number, flow->next)) return;
  if (flow_at(flow, number)->state == FLYING) flow_lose(flow, number);
}

void ndp_late(struct sim *sim, struct flow *flow) {
  struct ndp *ndp = &flow->ndp;
  uint32_t count = flow_lose_late(sim, flow, flow_timeout(flow));
  if (!count && ndp->owed) {
    // Nothing is in flight, but its turn will come.
    flow->timeout_at = sim->now + flow_timeout(flow);
    return;
  }
  flow->timeouts++;
  flow->backoff++;
  if (!count) {
    // The PULLs themselves are lost.
    count = ndp->asked - ndp->answered;
    if (!count) count = 1;
    ndp->answered = ndp->asked;
  }
  flow->timeout_at = sim->now + flow_timeout(flow);
  send_asked(sim, flow, count);
}

// ---- the receiver ----------------------------------------------------------------------------------------

static bool is_of_use(const struct flow *flow) {
  return flow->ndp.refused + (flow->end - flow->next) > flow->ndp.asked - flow->ndp.answered;
}

static void append(struct sim *sim, struct ndp *keeper, uint32_t number) {
  sim->flows[number].ndp.next = NONE;
  if (keeper->head == NONE) keeper->head = number;
  else sim->flows[keeper->tail].ndp.next = number;
  keeper->tail = number;
}

static void pull(struct sim *sim, struct ndp *keeper) {
  while (keeper->head != NONE && keeper->free_at <= sim->now) {
    const uint32_t number = keeper->head;
    struct flow *flow = &sim->flows[number];
    keeper->head = flow->ndp.next;
    if (--flow->ndp.owed) append(sim, keeper, number);
    if (!is_of_use(flow)) {
      flow->ndp.credit++;
      continue;
    }
    flow_tell(sim, flow, PULL, ++flow->ndp.asked, 0, 0);
    keeper->free_at = sim->now + flow->pace;
  }
  if (keeper->head != NONE) sim_set(sim, keeper->timer, keeper->free_at);
}

static void pulls_fire(struct sim *sim, uint32_t keeper) { pull(sim, &sim->flows[keeper].ndp); }

void ndp_arrived(struct sim *sim, struct flow *flow, uint32_t number, bool refused) {
  struct sent *sent = flow_at(flow, number);
  if (sent->refused != refused) flow->ndp.refused += refused ? 1 : -1;
  sent->refused = refused;
  struct ndp *keeper = &sim->flows[flow->ndp.keeper].ndp;
  if (!flow->ndp.owed++) append(sim, keeper, flow - sim->flows);
  pull(sim, keeper);
}
