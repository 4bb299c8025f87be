// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), as Linux has it: the highest rate of delivery of ten
// round trips and the shortest round trip of ten seconds say how fast to send and how much may be in flight. Left out:
// the search for policers, the allowance for ACKs that come in heaps, and the careful restart after a pause. Queues of
// fewer than some 30 segments for each flow lose much: bursts are up to 64 KiB, and losses hardly slow it down.
#include "connection.h"

#define HIGH_GAIN 2.885  // 2 / ln 2: doubles the rate each round trip
#define WINDOW_GAIN 2
#define MARGIN 0.99      // of the rate: a queue ought to drain
#define FULL_GROWTH 1.25  // the pipe is full when three round trips bring less
#define FULL_ROUNDS 3
#define LEAST_AGE (10 * SECOND)
#define PROBE_ROUND_TIME (200 * MILLISECOND)
#define WINDOW_LEAST 4
#define BURST_BYTES 65536  // of one millisecond, at most
#define ROUND_UNKNOWN MILLISECOND
#define PHASES 8

static double gain_of(uint32_t phase) { return phase == 0 ? 1.25 : phase == 1 ? 0.75 : 1; }

// Segments a second.
static double pace(const struct flow *flow) {
  const struct bbr *bbr = &flow->bbr;
  if (bbr->best > 0) return bbr->gain * bbr->best * MARGIN;
  return bbr->gain * WINDOW_FIRST * SECOND / (flow->smoothed ? flow->smoothed : ROUND_UNKNOWN);
}

static uint32_t burst(const struct flow *flow) {
  const double rate = pace(flow) / 1000;
  const uint32_t most = BURST_BYTES / (flow->segment_bytes + flow->header_bytes);
  return rate < 2 || most < 2 ? 2 : rate > most ? most : (uint32_t)rate;
}

// What is in flight with so many bandwidth-delay products, and what bursts need.
static double product(const struct flow *flow, double gain) {
  const struct bbr *bbr = &flow->bbr;
  if (bbr->best <= 0 || bbr->least == NEVER) return WINDOW_FIRST;
  return gain * bbr->best * bbr->least / SECOND + 3.0 * burst(flow);
}

void bbr_begin(struct sim *sim, struct flow *flow) {
  (void)sim;
  flow->window = WINDOW_FIRST;
  flow->bbr.gain = HIGH_GAIN;
  flow->bbr.least = NEVER;
}

ps bbr_turn(struct sim *sim, struct flow *flow) {
  struct bbr *bbr = &flow->bbr;
  if (bbr->burst) return sim->now;
  if (bbr->pace_at > sim->now) return bbr->pace_at;
  bbr->burst = burst(flow);
  bbr->pace_at = sim->now;
  return sim->now;
}

void bbr_sent(struct sim *sim, struct flow *flow, struct sent *sent) {
  struct bbr *bbr = &flow->bbr;
  const double share = (double)sent->bytes / (flow->segment_bytes + flow->header_bytes);
  if (bbr->burst) bbr->burst--;
  if (flow->segments >= WINDOW_FIRST) bbr->pace_at += (ps)(share / pace(flow) * SECOND);  // the first are not paced
  if (!flow->flying.count) bbr->first_at = bbr->delivered_at = sim->now;
  sent->delivered = bbr->delivered;
  sent->delivered_at = bbr->delivered_at;
  sent->first_at = bbr->first_at;
  sent->idle = bbr->idle_until > bbr->delivered;
}

void bbr_idle(struct flow *flow) {
  flow->bbr.idle_until = flow->bbr.delivered + flow->flying.count + 1;
  flow->bbr.burst = 0;
}

// The rate of delivery since the segment was sent (draft-cheng-iccrg-delivery-rate-estimation).
static void sample(struct sim *sim, struct flow *flow, const struct sent *sent) {
  struct bbr *bbr = &flow->bbr;
  const ps sending = sent->at - sent->first_at, arriving = sim->now - sent->delivered_at;
  const ps time = sending > arriving ? sending : arriving;
  bbr->first_at = sent->at;
  if (time < flow->least || !time) return;
  const double rate = (double)(bbr->delivered - sent->delivered) * SECOND / time;
  if (sent->idle && rate < bbr->best) return;
  double *slot = &bbr->rates[bbr->rounds % BBR_ROUNDS];
  if (rate > *slot) *slot = rate;
  if (rate > bbr->best) bbr->best = rate;
}

static void next_round(struct flow *flow) {
  struct bbr *bbr = &flow->bbr;
  bbr->round_end = bbr->delivered;
  bbr->rates[++bbr->rounds % BBR_ROUNDS] = 0;
  bbr->best = 0;
  for (uint32_t k = 0; k < BBR_ROUNDS; k++)
    if (bbr->rates[k] > bbr->best) bbr->best = bbr->rates[k];
  bbr->conserves = false;
  bbr->round_done = true;
}

static void check_full(struct bbr *bbr, bool idle) {
  if (bbr->filled || idle) return;
  if (bbr->best >= bbr->full * FULL_GROWTH) {
    bbr->full = bbr->best;
    bbr->full_rounds = 0;
  } else if (++bbr->full_rounds >= FULL_ROUNDS) {
    bbr->filled = true;
  }
}

static void enter_phase(struct sim *sim, struct bbr *bbr, uint32_t phase) {
  bbr->mode = PROBE_BANDWIDTH;
  bbr->phase = phase % PHASES;
  bbr->gain = gain_of(bbr->phase);
  bbr->phase_at = sim->now;
  bbr->lost = false;
}

// Any phase but the one that drains.
static void enter_probe_bandwidth(struct sim *sim, struct bbr *bbr) {
  enter_phase(sim, bbr, PHASES - sim_draw(sim) % (PHASES - 1));
}

static void check_phase(struct sim *sim, struct flow *flow) {
  struct bbr *bbr = &flow->bbr;
  const bool is_over = sim->now - bbr->phase_at > bbr->least;
  const uint32_t flying = flow->flying.count;
  bool next = is_over;
  if (bbr->gain > 1) next = is_over && (bbr->lost || flying >= product(flow, bbr->gain));
  if (bbr->gain < 1) next = is_over || flying <= product(flow, 1);
  if (next) enter_phase(sim, bbr, bbr->phase + 1);
}

// The shortest round trip is out of date: nearly nothing is sent for a while, so that queues of one's own are gone.
static void check_round(struct sim *sim, struct flow *flow, ps round) {
  struct bbr *bbr = &flow->bbr;
  const bool old = bbr->least != NEVER && sim->now > bbr->least_at + LEAST_AGE;
  if (round && (round <= bbr->least || old)) {
    bbr->least = round;
    bbr->least_at = sim->now;
  }
  if (old && bbr->mode != PROBE_ROUND) {
    bbr->mode = PROBE_ROUND;
    bbr->gain = 1;
    bbr->kept = flow->window;
    bbr->done_at = 0;
  }
  if (bbr->mode != PROBE_ROUND) return;
  if (!bbr->done_at) {
    if (flow->flying.count > WINDOW_LEAST) return;
    bbr->done_at = sim->now + PROBE_ROUND_TIME;
    bbr->round_end = bbr->delivered;
    bbr->round_done = false;
  } else if (bbr->round_done && sim->now > bbr->done_at) {
    bbr->least_at = sim->now;
    flow->window = flow->window > bbr->kept ? flow->window : bbr->kept;
    if (bbr->filled) return enter_probe_bandwidth(sim, bbr);
    bbr->mode = STARTUP;
    bbr->gain = HIGH_GAIN;
  }
}

static void set_window(struct flow *flow, uint32_t segments) {
  struct bbr *bbr = &flow->bbr;
  const double gain = bbr->mode == PROBE_BANDWIDTH ? WINDOW_GAIN : bbr->mode == PROBE_ROUND ? 1 : HIGH_GAIN;
  const double goal = product(flow, gain);
  if (flow->state == ORDERLY && bbr->kept > 0 && bbr->mode != PROBE_ROUND) {
    if (flow->window < bbr->kept) flow->window = bbr->kept;
    bbr->kept = 0;
  }
  if (bbr->conserves && flow->state == RECOVERY) {
    // What arrives may be sent, for one round trip.
    if (flow->window < flow->flying.count + segments) flow->window = flow->flying.count + segments;
  } else if (bbr->filled) {
    flow->window = flow->window + segments < goal ? flow->window + segments : goal;
  } else if (flow->window < goal || bbr->delivered < WINDOW_FIRST) {
    flow->window += segments;
  }
  if (flow->window < WINDOW_LEAST && flow->state != LOSS) flow->window = WINDOW_LEAST;
  if (bbr->mode == PROBE_ROUND && flow->window > WINDOW_LEAST) flow->window = WINDOW_LEAST;
  if (flow->window > WINDOW_MOST) flow->window = WINDOW_MOST;
}

void bbr_acked(struct sim *sim, struct flow *flow, const struct acked *acked) {
  struct bbr *bbr = &flow->bbr;
  const struct sent *newest = acked->newest;
  bbr->delivered += acked->segments;
  if (acked->segments) bbr->delivered_at = sim->now;
  if (newest) {
    const bool round = newest->delivered >= bbr->round_end;
    if (round) next_round(flow);
    sample(sim, flow, newest);
    if (round) check_full(bbr, newest->idle);
  }
  if (bbr->mode == PROBE_BANDWIDTH) check_phase(sim, flow);
  if (bbr->mode == STARTUP && bbr->filled) {
    bbr->mode = DRAIN;
    bbr->gain = 1 / HIGH_GAIN;
  }
  if (bbr->mode == DRAIN && flow->flying.count <= product(flow, 1)) enter_probe_bandwidth(sim, bbr);
  check_round(sim, flow, newest ? sim->now - newest->at : 0);
  set_window(flow, acked->segments);
}

void bbr_lost(struct sim *sim, struct flow *flow) {
  (void)sim;
  struct bbr *bbr = &flow->bbr;
  bbr->lost = true;
  if (bbr->kept < flow->window && bbr->mode != PROBE_ROUND) bbr->kept = flow->window;
  bbr->conserves = true;
  bbr->round_end = bbr->delivered;
  flow->window = flow->flying.count + 1;
}

void bbr_timed_out(struct sim *sim, struct flow *flow, bool first) {
  (void)sim;
  struct bbr *bbr = &flow->bbr;
  if (first && bbr->kept < flow->window && bbr->mode != PROBE_ROUND) bbr->kept = flow->window;
  bbr->conserves = false;
  flow->window = 1;
}

void bbr_resumed(struct sim *sim, struct flow *flow, ps idle) { (void)sim, (void)flow, (void)idle; }
