// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The segments of a flow between their first transmission and their acknowledgement in order.
#include <stdlib.h>
#include <string.h>

#include "connection.h"

#define ROOM_LEAST 64  // one word of bits
#define WORD_BITS 64
#define BITS_A_BYTE 8
#define ACKED_BITS 16

// ---- lists -----------------------------------------------------------------------------------------------

static void append(struct flow *flow, struct list *list, uint32_t number) {
  struct sent *sent = flow_at(flow, number);
  sent->previous = list->count ? list->tail : NONE;
  sent->next = NONE;
  if (list->count++) flow_at(flow, list->tail)->next = number;
  else list->head = number;
  list->tail = number;
}

static void take_out(struct flow *flow, uint32_t number) {
  const struct sent *sent = flow_at(flow, number);
  struct list *list = sent->state == FLYING ? &flow->flying : &flow->lost;
  if (sent->previous == NONE) list->head = sent->next;
  else flow_at(flow, sent->previous)->next = sent->next;
  if (sent->next == NONE) list->tail = sent->previous;
  else flow_at(flow, sent->next)->previous = sent->previous;
  list->count--;
}

void flow_lose(struct flow *flow, uint32_t number) {
  take_out(flow, number);
  flow_at(flow, number)->state = LOST;
  append(flow, &flow->lost, number);
}

uint32_t flow_lose_late(const struct sim *sim, struct flow *flow, ps age) {
  uint32_t count = 0;
  for (; flow->flying.count && flow_at(flow, flow->flying.head)->at + age <= sim->now; count++)
    flow_lose(flow, flow->flying.head);
  return count;
}

void flow_lose_all(struct flow *flow) {
  const struct list earlier = flow->lost;
  flow->lost = (struct list){.count = 0};
  while (flow->flying.count) flow_lose(flow, flow->flying.head);
  if (!earlier.count) return;
  if (!flow->lost.count) {
    flow->lost = earlier;
    return;
  }
  flow_at(flow, flow->lost.tail)->next = earlier.head;
  flow_at(flow, earlier.head)->previous = flow->lost.tail;
  flow->lost.tail = earlier.tail;
  flow->lost.count += earlier.count;
}

// ---- bits ------------------------------------------------------------------------------------------------

static bool bit(const struct flow *flow, const uint64_t *bits, uint32_t number) {
  const uint32_t place = number & (flow->room - 1);
  return bits[place / WORD_BITS] >> place % WORD_BITS & 1;
}

static void flip(const struct flow *flow, uint64_t *bits, uint32_t number) {
  const uint32_t place = number & (flow->room - 1);
  bits[place / WORD_BITS] ^= 1ull << place % WORD_BITS;
}

// The bits of the last ACKED_BITS segments up to this one, whose own is the highest.
static uint32_t bits_up_to(const struct flow *flow, const uint64_t *bits, uint32_t number) {
  const uint32_t place = (number - (ACKED_BITS - 1)) & (flow->room - 1);
  const uint32_t word = place / WORD_BITS, shift = place % WORD_BITS;
  uint64_t found = bits[word] >> shift;
  if (shift > WORD_BITS - ACKED_BITS) found |= bits[(word + 1) & (flow->room / WORD_BITS - 1)] << (WORD_BITS - shift);
  return found & ((1u << ACKED_BITS) - 1);
}

static void grow(struct flow *flow) {
  const struct flow old = *flow;
  flow->room = old.room ? 2 * old.room : ROOM_LEAST;
  flow->sent = calloc(flow->room, sizeof *flow->sent);
  flow->known = calloc(flow->room / WORD_BITS, sizeof *flow->known);
  flow->here = calloc(flow->room / WORD_BITS, sizeof *flow->here);
  for (uint32_t number = old.una; number != old.next; number++) {
    *flow_at(flow, number) = *flow_at(&old, number);
    if (bit(&old, old.known, number)) flip(flow, flow->known, number);
    if (bit(&old, old.here, number)) flip(flow, flow->here, number);
  }
  free(old.sent);
  free(old.known);
  free(old.here);
}

// ---- the sender ------------------------------------------------------------------------------------------

uint32_t flow_turn(const struct flow *flow) {
  if (flow->lost.count) return flow->lost.head;
  return flow->next != flow->end && flow->next - flow->una < WINDOW_MOST ? flow->next : NONE;
}

static void make_next(struct flow *flow) {
  if (flow->next - flow->una == flow->room) grow(flow);
  const struct message *message = &flow->messages[flow->message_sending & (flow->message_room - 1)];
  const bool last = flow->next + 1 == message->end;
  const uint32_t payload = last ? message->last_bytes : flow->segment_bytes;
  *flow_at(flow, flow->next) = (struct sent){.bytes = payload + flow->header_bytes, .end = message->end};
  flow->next++;
  flow->message_sending += last;
}

void flow_transmit(struct sim *sim, struct flow *flow, uint32_t number) {
  const bool again = number != flow->next;
  if (!again) make_next(flow);
  struct sent *sent = flow_at(flow, number);
  if (again) take_out(flow, number);
  sent->again = again;
  sent->at = flow->sent_at = sim->now;
  sent->order = ++flow->order;
  if (flow->control == BBR) bbr_sent(sim, flow, sent);
  sent->state = FLYING;
  append(flow, &flow->flying, number);
  flow->segments++;
  flow->repeats += again;
  if (sent->refused) {
    sent->refused = false;
    flow->ndp.refused--;
  }
  // pFabric: bytes left of the message, and of those before it on this connection.
  const uint64_t left = (uint64_t)(sent->end - flow->una) * flow->segment_bytes;
  const struct packet packet = {
      .source = flow->source, .target = flow->target, .owner = flow - sim->flows, .number = number, .more = sent->order,
      .bytes = sent->bytes, .rank = flow->control != PFABRIC ? 0 : left < NONE ? left : NONE, .kind = SEGMENT,
      .level = flow->level, .marks = (again ? AGAIN : 0) | (flow->control == DCTCP ? CAPABLE : 0),
      .path = flow->sprays ? sim_draw(sim) : flow->path};
  sim_forward(sim, flow->source, &packet);
}

// The sender knows that a segment has arrived.
static void know(struct flow *flow, uint32_t number, struct acked *acked) {
  struct sent *sent = flow_at(flow, number);
  if (sent->state == ARRIVED) return;
  take_out(flow, number);
  sent->state = ARRIVED;
  acked->segments++;
  for (uint32_t k = 0; k < LATER_ACKS && before(flow->latest[k], sent->first); k++) {
    if (k) flow->latest[k - 1] = flow->latest[k];
    flow->latest[k] = sent->first;
  }
  if (flow->probing && sent->first == flow->probe) {
    // As RACK has it (RFC 8985): the probe was sent so much later that what has not come before it is lost.
    for (uint32_t k = 0; k < LATER_ACKS; k++) flow->latest[k] = flow->probe;
    acked->repaired |= sent->again;
  }
  // A round trip is known of the last transmission only; earlier ones came late.
  if (sent->first == sent->order && (!acked->newest || before(acked->newest->order, sent->order))) acked->newest = sent;
}

void flow_tell(struct sim *sim, const struct flow *flow, enum packet_kind kind, uint32_t number, uint32_t more,
               uint32_t marks) {
  const struct packet packet = {.source = flow->target, .target = flow->source, .owner = flow - sim->flows,
                                .number = number, .more = more, .bytes = flow->header_bytes, .kind = kind,
                                .level = flow->control == NDP ? 0 : flow->level, .marks = marks,
                                .path = flow->sprays ? sim_draw(sim) : flow->path};
  sim_forward(sim, flow->target, &packet);
}

ps flow_way(const struct sim *sim, uint32_t from, uint32_t to, uint32_t bytes, uint64_t *rate) {
  ps time = 0;
  for (uint32_t node = from; node != to;) {
    const uint32_t routes = sim->nodes[node].routes;
    uint32_t number = routes == NONE ? sim->nodes[node].outbox : sim->routes[routes + to].link;
    if (number == NONE) break;
    while (number != NONE) {
      const struct link *link = &sim->links[number];
      time += link->delay + (link->processor != NONE ? link->per_packet : 0);
      if (link->rate) time += bytes * BITS_A_BYTE * SECOND / link->rate;
      if (link->rate && link->processor == NONE) *rate = link->rate;
      node = link->node;
      number = link->then;
    }
  }
  return time;
}

// ---- the receiver, and what it tells the sender ----------------------------------------------------------

// An ACK carries what is expected next, and of the segment that it answers, unless that came in order: how far it is
// ahead of the expected one (upper half), and which of the 16 up to it have come. So 15 ACKs in a row may be lost, as
// with selective acknowledgements of a few blocks (RFC 2018).

bool flow_take(struct flow *flow, const struct packet *packet) {
  const uint32_t number = packet->number;
  if (before(number, flow->expected) || bit(flow, flow->here, number)) return false;
  flow_at(flow, number)->first = packet->more;
  flow->received += packet->bytes - flow->header_bytes;
  flip(flow, flow->here, number);
  for (; flow->expected != flow->next && bit(flow, flow->here, flow->expected); flow->expected++)
    flip(flow, flow->here, flow->expected);
  return true;
}

bool flow_lacks(const struct flow *flow, uint32_t number) {
  return !before(number, flow->expected) && !bit(flow, flow->here, number);
}

uint32_t flow_places(const struct flow *flow, uint32_t number) {
  if (before(number, flow->expected)) return 0;
  const uint32_t ahead = number - flow->expected;
  uint32_t bits = bits_up_to(flow, flow->here, number);
  if (ahead < ACKED_BITS - 1) bits &= ~0u << (ACKED_BITS - 1 - ahead);
  return ahead << ACKED_BITS | bits;
}

void flow_know_places(struct flow *flow, uint32_t expected, uint32_t places, struct acked *acked) {
  for (; before(flow->una, expected); flow->una++) {
    know(flow, flow->una, acked);
    if (bit(flow, flow->known, flow->una)) flip(flow, flow->known, flow->una);
    acked->onward = true;
  }
  const uint32_t number = expected + (places >> ACKED_BITS);
  uint32_t bits = places & ((1u << ACKED_BITS) - 1) & ~bits_up_to(flow, flow->known, number);
  for (; bits; bits &= bits - 1) {
    const uint32_t one = number - (ACKED_BITS - 1) + __builtin_ctz(bits);
    if (before(one, flow->una)) continue;
    know(flow, one, acked);
    flip(flow, flow->known, one);
  }
}
