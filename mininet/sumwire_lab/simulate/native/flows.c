// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Connections: their messages, acknowledgements and timers. A model of TCP as Linux has it, of which it leaves out:
// handshakes and their ends; delayed ACKs (each segment is acknowledged at once); the receiver's window; proportional
// rate reduction (the window of a recovery is there at once); RACK's clock and growing tolerance of reordering (a
// segment is lost when three that were sent later have arrived, and with fewer in flight a probe finds out); the
// undoing of needless recoveries and F-RTO.
#include "connection.h"

#include <stdlib.h>

#include "tasks.h"

#define TIMEOUT_FIRST SECOND
#define TIMEOUT_LEAST (200 * MILLISECOND)  // Linux adds it to the round trip: a least for what is 4 * varies
#define TIMEOUT_MOST (120 * SECOND)
#define BACKOFF_MOST 16
#define PROBE_LEAST (2 * MILLISECOND)  // Linux: two round trips, and this; for a single segment a time-out's least
#define PFABRIC_ROUNDS 3               // of a time-out
#define PFABRIC_TRIES 5                // time-outs in a row, after which only headers are sent until one is answered
#define NDP_ROUNDS 10                  // of a time-out before any round trip is known

static void pump(struct sim *sim, struct flow *flow, bool one);
static void timer_fires(struct sim *sim, uint32_t number);
static void pacer_fires(struct sim *sim, uint32_t number) { pump(sim, &sim->flows[number], false); }
static void stream_fires(struct sim *sim, uint32_t number);

uint32_t sim_flow(struct sim *sim, uint32_t source, uint32_t target, uint32_t control, uint32_t segment_bytes,
                  uint32_t header_bytes, uint32_t level, uint64_t rate) {
  const uint32_t number = sim->flow_count++;
  sim->flows = realloc(sim->flows, sim->flow_count * sizeof *sim->flows);
  struct flow *flow = &sim->flows[number];
  *flow = (struct flow){.source = source, .target = target, .segment_bytes = segment_bytes,
                        .header_bytes = header_bytes, .rate = rate, .control = control & ~FLOW_SPRAYS, .level = level,
                        .timer_at = NEVER, .timeout_at = NEVER, .probe_at = NEVER, .least = NEVER};
  flow->sprays = control & FLOW_SPRAYS || flow->control == PFABRIC || flow->control == NDP;
  flow->timer = sim_timer(sim, timer_fires, number);
  if (flow->control == BBR) flow->pacer = sim_timer(sim, pacer_fires, number);
  if (flow->control == NDP) {
    if (!level) flow->level = 1;  // behind headers
    ndp_make(sim, flow);
  }
  return number;
}

void sim_stream(struct sim *sim, uint32_t number, uint32_t bytes, ps gap, uint32_t most) {
  struct flow *flow = &sim->flows[number];
  flow->stream_bytes = bytes;
  flow->stream_gap = gap;
  flow->stream_most = most;
  flow->streamer = sim_timer(sim, stream_fires, number);
}

void flows_start(struct sim *sim) {
  for (uint32_t number = 0; number < sim->flow_count; number++) {
    const struct flow *flow = &sim->flows[number];
    if (flow->stream_gap) sim_set(sim, flow->streamer, sim_draw(sim) % flow->stream_gap);
  }
}

void sim_flow_counts(const struct sim *sim, uint32_t number, uint64_t *counts) {
  const struct flow *flow = &sim->flows[number];
  const uint64_t all[] = {flow->segments, flow->repeats, flow->timeouts, flow->probes, flow->received};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) counts[k] = all[k];
}

void flows_free(struct sim *sim) {
  for (uint32_t number = 0; number < sim->flow_count; number++) {
    struct flow *flow = &sim->flows[number];
    void *const arrays[] = {flow->messages, flow->sent, flow->known, flow->here};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) free(arrays[k]);
  }
  free(sim->flows);
}

// ---- timers ----------------------------------------------------------------------------------------------

static void note_round(struct flow *flow, ps round) {
  if (round < flow->least) flow->least = round;
  if (!flow->smoothed) {
    flow->smoothed = round;
    flow->varies = round / 2;
    return;
  }
  const ps off = round > flow->smoothed ? round - flow->smoothed : flow->smoothed - round;
  flow->varies = (3 * flow->varies + off) / 4;
  flow->smoothed = (7 * flow->smoothed + round) / 8;
}

ps flow_timeout(const struct flow *flow) {
  if (flow->control == PFABRIC) return PFABRIC_ROUNDS * flow->round;
  ps least = TIMEOUT_LEAST, timeout = TIMEOUT_FIRST;
  if (flow->control == NDP) {
    // Queues are short and trimmed headers hardly ever lost, so no long least is needed.
    least = 2 * flow->round;
    timeout = NDP_ROUNDS * flow->round + MILLISECOND;
  }
  if (flow->smoothed) timeout = flow->smoothed + (4 * flow->varies > least ? 4 * flow->varies : least);
  timeout <<= flow->backoff < BACKOFF_MOST ? flow->backoff : BACKOFF_MOST;
  return timeout < TIMEOUT_MOST ? timeout : TIMEOUT_MOST;
}

static ps due(const struct flow *flow) {
  if (flow->una == flow->end) return NEVER;
  if (flow->control >= PFABRIC && flow->flying.count)
    return flow_at(flow, flow->flying.head)->at + flow_timeout(flow);
  return flow->probe_at < flow->timeout_at ? flow->probe_at : flow->timeout_at;
}

// Sees to it that the timer fires in time. It may fire too early, which costs less than to set it with every ACK.
static void watch(struct sim *sim, struct flow *flow) {
  const ps at = due(flow);
  if (at < flow->timer_at) sim_set(sim, flow->timer, flow->timer_at = at);
}

// A tail loss probe (RFC 8985): something to acknowledge, because nothing more may come that shows what is lost.
static void send_probe(struct sim *sim, struct flow *flow) {
  const uint32_t turn = flow_turn(flow);
  flow->probes++;
  flow_transmit(sim, flow, turn != NONE ? turn : flow->flying.tail);
  flow->probing = true;
  flow->probe = flow->order;
  flow->probe_end = flow->next;
  flow->probe_at = NEVER;
  flow->timeout_at = sim->now + flow_timeout(flow);
}

static void time_out(struct sim *sim, struct flow *flow) {
  const bool first = flow->state != LOSS;
  flow->timeouts++;
  flow->backoff++;
  flow->state = LOSS;
  flow->recover = flow->next;
  flow->probing = false;
  flow_lose_all(flow);
  flow_controls[flow->control].timed_out(sim, flow, first);
  flow->timeout_at = sim->now + flow_timeout(flow);
  pump(sim, flow, false);
}

static void pfabric_late(struct sim *sim, struct flow *flow) {
  if (flow_lose_late(sim, flow, flow_timeout(flow))) {
    flow->timeouts++;
    flow->backoff++;
    flow->probing = flow->backoff >= PFABRIC_TRIES;
    flow_controls[PFABRIC].timed_out(sim, flow, true);
  }
  flow->timeout_at = sim->now + flow_timeout(flow);
  if (!flow->probing) return pump(sim, flow, false);
  flow->probes++;
  const struct packet header = {.source = flow->source, .target = flow->target, .owner = flow - sim->flows,
                                .number = flow->una, .bytes = flow->header_bytes, .kind = SEGMENT,
                                .level = flow->level, .marks = TRIMMED, .path = sim_draw(sim)};
  sim_forward(sim, flow->source, &header);
}

static void timer_fires(struct sim *sim, uint32_t number) {
  struct flow *flow = &sim->flows[number];
  flow->timer_at = NEVER;
  if (due(flow) <= sim->now) {
    if (flow->control == PFABRIC) pfabric_late(sim, flow);
    else if (flow->control == NDP) ndp_late(sim, flow);
    else if (flow->probe_at <= flow->timeout_at) send_probe(sim, flow);
    else time_out(sim, flow);
  }
  watch(sim, flow);
}

// ---- the sender ------------------------------------------------------------------------------------------

static void plan_probe(struct sim *sim, struct flow *flow) {
  flow->probe_at = NEVER;
  if (flow->state != ORDERLY || flow->una == flow->next || !flow->smoothed || flow->probing) return;
  flow->probe_at = sim->now + 2 * flow->smoothed + (flow->next - flow->una == 1 ? TIMEOUT_LEAST : PROBE_LEAST);
  if (flow->probe_at > flow->timeout_at) flow->probe_at = flow->timeout_at;
}

// Sends what the window has room for, and `one` without asking it.
static void pump(struct sim *sim, struct flow *flow, bool one) {
  const uint64_t segments = flow->segments;
  if (flow->control == PFABRIC && flow->probing) return;
  while (one || flow->flying.count < (uint32_t)flow->window) {
    const uint32_t turn = flow_turn(flow);
    if (turn == NONE && flow->control == BBR) bbr_idle(flow);
    if (turn == NONE) break;
    const ps at = flow->control == BBR ? bbr_turn(sim, flow) : sim->now;
    if (at > sim->now) {
      sim_set(sim, flow->pacer, at);
      break;
    }
    if (flow->timeout_at == NEVER || turn == flow->una) flow->timeout_at = sim->now + flow_timeout(flow);
    flow_transmit(sim, flow, turn);
    one = false;
  }
  if (flow->segments != segments && flow->control < PFABRIC) plan_probe(sim, flow);
  watch(sim, flow);
}

static void begin(struct sim *sim, struct flow *flow) {
  const uint32_t most = flow->segment_bytes + flow->header_bytes;
  uint64_t rate = flow->rate;
  flow->path = sim_draw(sim);
  if (flow->control >= PFABRIC) {
    flow->round = flow_way(sim, flow->target, flow->source, flow->header_bytes, &rate) +
                  flow_way(sim, flow->source, flow->target, most, &rate);
    const double product = flow->rate ? (double)flow->rate / 8 * flow->round / SECOND / most : WINDOW_FIRST;
    flow->most = (uint32_t)product + (product > (uint32_t)product);
    flow->pace = rate ? most * 8 * SECOND / rate : 0;
  }
  flow_controls[flow->control].begin(sim, flow);
}

static void push(struct flow *flow, struct message message) {
  if (flow->message_end - flow->message_head == flow->message_room) {
    const uint32_t room = flow->message_room ? 2 * flow->message_room : 4;
    struct message *messages = malloc(room * sizeof *messages);
    for (uint32_t k = flow->message_head; k != flow->message_end; k++)
      messages[k & (room - 1)] = flow->messages[k & (flow->message_room - 1)];
    free(flow->messages);
    flow->messages = messages;
    flow->message_room = room;
  }
  flow->messages[flow->message_end++ & (flow->message_room - 1)] = message;
}

// `task`: ends when the bytes have arrived; NONE for none.
static void send_message(struct sim *sim, struct flow *flow, uint32_t task, uint64_t bytes) {
  if (!flow->message_room) begin(sim, flow);
  else if (flow->una == flow->end && flow->control != NDP)
    flow_controls[flow->control].resumed(sim, flow, sim->now - flow->sent_at);
  // A segment belongs to one message, so a message's last one is short. A message without bytes is a header.
  const uint64_t segments = bytes ? (bytes + flow->segment_bytes - 1) / flow->segment_bytes : 1;
  flow->end += segments;
  push(flow, (struct message){task, flow->end, bytes - (segments - 1) * flow->segment_bytes});
  if (flow->control == NDP) ndp_send(sim, flow);
  else pump(sim, flow, false);
  watch(sim, flow);
}

void flow_send(struct sim *sim, uint32_t number, uint32_t task) {
  send_message(sim, &sim->flows[number], task, sim->tasks[task].amount);
}

static void stream_fires(struct sim *sim, uint32_t number) {
  struct flow *flow = &sim->flows[number];
  const uint64_t under_way = (uint64_t)(flow->end - flow->una) * flow->segment_bytes;
  if (under_way < flow->stream_most) send_message(sim, flow, NONE, flow->stream_bytes);
  sim_set(sim, flow->streamer, sim->now + flow->stream_gap);
}

// Returns whether a recovery begins.
static bool find_lost(struct sim *sim, struct flow *flow, const struct acked *acked) {
  while (flow->flying.count && before(flow_at(flow, flow->flying.head)->order, flow->latest[0]))
    flow_lose(flow, flow->flying.head);
  if (flow->state != ORDERLY && acked->onward && !before(flow->una, flow->recover)) flow->state = ORDERLY;
  if (flow->probing && !before(flow->una, flow->probe_end)) flow->probing = false;
  const bool begins = flow->state == ORDERLY && flow->lost.count;
  if (flow->state == ORDERLY && (begins || acked->repaired)) flow_controls[flow->control].lost(sim, flow);
  if (begins) {
    flow->state = RECOVERY;
    flow->recover = flow->next;
    flow->probing = false;
  }
  return begins;
}

static void acknowledged(struct sim *sim, struct flow *flow, const struct packet *packet) {
  struct acked acked = {.flying = flow->flying.count, .marked = packet->marks & CONGESTED};
  flow_know_places(flow, packet->number, packet->more, &acked);
  if (acked.newest) note_round(flow, sim->now - acked.newest->at);
  if (acked.onward || flow->control >= PFABRIC) flow->backoff = 0;
  if (acked.onward || flow->control == NDP)
    flow->timeout_at = flow->una == flow->next && flow->control != NDP ? NEVER : sim->now + flow_timeout(flow);
  if (flow->control == NDP) return ndp_acknowledged(flow, packet);
  bool one = false;
  if (flow->control == PFABRIC) flow->probing = false;
  else one = find_lost(sim, flow, &acked);
  flow_controls[flow->control].acked(sim, flow, &acked);
  if (flow->control < PFABRIC && (one || acked.onward)) plan_probe(sim, flow);
  pump(sim, flow, one);
}

// ---- the receiver ----------------------------------------------------------------------------------------

static void arrived(struct sim *sim, struct flow *flow, const struct packet *packet) {
  const bool whole = !(packet->marks & TRIMMED);
  if (!whole && flow->control < PFABRIC) return;
  const bool refused = !whole && flow->control == NDP && flow_lacks(flow, packet->number);
  const bool new = whole && flow_take(flow, packet);
  // An ACK with AGAIN asks for the segment, of which only the header has come. DCTCP's marks are echoed one by one.
  flow_tell(sim, flow, ACK, flow->expected, flow_places(flow, packet->number),
            (packet->marks & CONGESTED) | (refused ? AGAIN : 0));
  if (flow->control == NDP && (new || refused)) ndp_arrived(sim, flow, packet->number, refused);
  while (flow->message_head != flow->message_end) {
    const struct message message = flow->messages[flow->message_head & (flow->message_room - 1)];
    if (before(flow->expected, message.end)) break;
    flow->message_head++;
    if (message.task != NONE) task_end(sim, message.task);
  }
}

void flow_receive(struct sim *sim, const struct packet *packet) {
  struct flow *flow = &sim->flows[packet->owner];
  if (packet->kind == SEGMENT) arrived(sim, flow, packet);
  else if (packet->kind == ACK) acknowledged(sim, flow, packet);
  else ndp_pulled(sim, flow, packet->number);
}
