// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// How many segments a flow may have in flight. Windows are in segments, as Linux counts them.
#include "connection.h"

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

// The window was what held the flow back, so it may grow. In slow start half of it is enough, as Linux has it.
static bool is_limited(const struct flow *flow, const struct acked *acked) {
  return flow->window < flow->threshold ? 2 * acked->flying > flow->window : acked->flying + 1 > flow->window;
}

static void enlarge(struct flow *flow, double segments) {
  flow->window = smaller(flow->window + segments, WINDOW_MOST);
}

// Slow start (RFC 5681). Returns the acknowledged segments that it has not used.
static double slow_start(struct flow *flow, uint32_t segments) {
  if (flow->window >= flow->threshold) return segments;
  const double used = smaller(segments, flow->threshold - flow->window);
  enlarge(flow, used);
  return segments - used;
}

// Slow start and a segment each round trip (RFC 5681).
static void reno(struct flow *flow, uint32_t segments) {
  const double rest = slow_start(flow, segments);
  if (rest > 0) enlarge(flow, rest / flow->window);
}

static void reduce(struct flow *flow, double factor) {
  flow->window = flow->threshold = larger(flow->window * factor, 2);
}

static void start(struct sim *sim, struct flow *flow) {
  (void)sim;
  flow->window = WINDOW_FIRST;
  flow->threshold = WINDOW_MOST;
}

// After a pause of a time-out the window is halved for each, down to the first one (RFC 2861, as Linux by default).
static void decay(struct sim *sim, struct flow *flow, ps idle) {
  (void)sim;
  const ps timeout = flow_timeout(flow);
  if (idle <= timeout) return;
  flow->threshold = larger(flow->threshold, flow->window * 3 / 4);
  for (; idle > timeout && flow->window > WINDOW_FIRST; idle -= timeout) flow->window /= 2;
  flow->window = larger(flow->window, WINDOW_FIRST);
}

// ---- CUBIC: RFC 9438 -------------------------------------------------------------------------------------

#define CUBIC_C 0.4
#define CUBIC_BETA 0.7
#define CUBIC_ALPHA (3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA))
// HyStart, as Linux has it, by delay alone and not by the spacing of ACKs: slow start ends when the least of 8 round
// trips is an eighth longer than the least of all, at least 4 ms and at most 16.
#define HYSTART_WINDOW 16
#define HYSTART_SAMPLES 8
#define HYSTART_LEAST (4 * MILLISECOND)
#define HYSTART_MOST (16 * MILLISECOND)

// By Newton's way, because libraries' cbrt differ in the last bit.
static double cube_root(double of) {
  if (of <= 0) return 0;
  double root = of > 1 ? of : 1;
  for (;;) {
    const double next = (2 * root + of / (root * root)) / 3;
    if (next >= root) return root;
    root = next;
  }
}

static void hystart(struct sim *sim, struct flow *flow, const struct acked *acked) {
  struct cubic *cubic = &flow->cubic;
  if (!acked->newest) return;
  if (!before(flow->una, cubic->round_end)) {
    cubic->round_end = flow->next;
    cubic->round_least = NEVER;
    cubic->samples = 0;
  }
  const ps round = sim->now - acked->newest->at;
  if (round < cubic->round_least) cubic->round_least = round;
  const ps eighth = flow->least / 8;
  const ps more = eighth < HYSTART_LEAST ? HYSTART_LEAST : eighth < HYSTART_MOST ? eighth : HYSTART_MOST;
  if (++cubic->samples >= HYSTART_SAMPLES && flow->window >= HYSTART_WINDOW && cubic->round_least > flow->least + more)
    flow->threshold = flow->window;
}

static void cubic_acked(struct sim *sim, struct flow *flow, const struct acked *acked) {
  struct cubic *cubic = &flow->cubic;
  if (flow->window < flow->threshold) hystart(sim, flow, acked);
  if (flow->state == RECOVERY || !is_limited(flow, acked)) return;
  const double segments = slow_start(flow, acked->segments);
  if (segments <= 0) return;
  if (!cubic->epoch) {
    cubic->epoch = sim->now;
    cubic->before = larger(cubic->before, flow->window);
    cubic->turn = cube_root((cubic->before - flow->window) / CUBIC_C);
    cubic->estimate = flow->window;
  }
  const double time = (double)(sim->now - cubic->epoch) / SECOND, ahead = time + (double)flow->smoothed / SECOND;
  const double from = time - cubic->turn, to = ahead - cubic->turn;
  const double now = CUBIC_C * from * from * from + cubic->before;
  const double goal = smaller(larger(CUBIC_C * to * to * to + cubic->before, flow->window), 1.5 * flow->window);
  cubic->estimate += (cubic->estimate < cubic->before ? CUBIC_ALPHA : 1) * segments / flow->window;
  if (now < cubic->estimate) enlarge(flow, larger(cubic->estimate - flow->window, 0));
  else enlarge(flow, (goal - flow->window) / flow->window * segments);
}

static void cubic_lost(struct sim *sim, struct flow *flow) {
  (void)sim;
  struct cubic *cubic = &flow->cubic;
  // Fast convergence: who has less than the last time makes room.
  cubic->before = flow->window < cubic->before ? flow->window * (1 + CUBIC_BETA) / 2 : flow->window;
  cubic->epoch = 0;
  reduce(flow, CUBIC_BETA);
}

static void cubic_timed_out(struct sim *sim, struct flow *flow, bool first) {
  if (first) cubic_lost(sim, flow);
  flow->cubic.epoch = 0;
  flow->window = 1;
}

static void cubic_resumed(struct sim *sim, struct flow *flow, ps idle) {
  if (flow->cubic.epoch) flow->cubic.epoch += idle;  // a pause does not count as time to grow
  decay(sim, flow, idle);
}

// ---- DCTCP: RFC 8257 -------------------------------------------------------------------------------------

#define DCTCP_G 0.0625

static void dctcp_begin(struct sim *sim, struct flow *flow) {
  start(sim, flow);
  flow->dctcp.alpha = 1;
}

static void dctcp_acked(struct sim *sim, struct flow *flow, const struct acked *acked) {
  (void)sim;
  struct dctcp *dctcp = &flow->dctcp;
  dctcp->acked += acked->segments;
  if (acked->marked) dctcp->marked += acked->segments;
  if (!before(flow->una, dctcp->end)) {
    if (dctcp->acked) dctcp->alpha += DCTCP_G * ((double)dctcp->marked / dctcp->acked - dctcp->alpha);
    dctcp->acked = dctcp->marked = 0;
    dctcp->end = flow->next;
  }
  if (flow->state == RECOVERY || before(flow->una, dctcp->calm)) return;
  if (acked->marked && flow->state == ORDERLY) {
    reduce(flow, 1 - dctcp->alpha / 2);
    dctcp->calm = flow->next;
  } else if (is_limited(flow, acked)) {
    reno(flow, acked->segments);
  }
}

static void dctcp_lost(struct sim *sim, struct flow *flow) {
  (void)sim;
  reduce(flow, 0.5);
}

static void halve_and_restart(struct sim *sim, struct flow *flow, bool first) {
  (void)sim;
  if (first) reduce(flow, 0.5);
  flow->window = 1;
}

// ---- pFabric ---------------------------------------------------------------------------------------------

// A message begins with a window of one bandwidth-delay product, which is also the most: more could only fill queues.
// Time-outs are all it knows of losses. After one its window grows as TCP's does.

static void pfabric_begin(struct sim *sim, struct flow *flow) {
  (void)sim;
  flow->window = flow->threshold = flow->most;
}

static void pfabric_acked(struct sim *sim, struct flow *flow, const struct acked *acked) {
  (void)sim;
  reno(flow, acked->segments);
  flow->window = smaller(flow->window, flow->most);
}

static void pfabric_resumed(struct sim *sim, struct flow *flow, ps idle) {
  (void)idle;
  pfabric_begin(sim, flow);
}

const struct control flow_controls[CONTROLS] = {
    [CUBIC] = {start, cubic_acked, cubic_lost, cubic_timed_out, cubic_resumed},
    [BBR] = {bbr_begin, bbr_acked, bbr_lost, bbr_timed_out, bbr_resumed},
    [DCTCP] = {dctcp_begin, dctcp_acked, dctcp_lost, halve_and_restart, decay},
    [PFABRIC] = {pfabric_begin, pfabric_acked, NULL, halve_and_restart, pfabric_resumed},
    [NDP] = {.begin = ndp_begin},
};
