// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// What happens to nearly every chunk: its turn comes, it is sent, and its result arrives with those of its neighbours.
#include "steady.h"

static void send(const struct steady_exchange *exchange, int64_t chunk, int64_t number, double now) {
  exchange->log[number] = chunk;
  exchange->first[chunk] = exchange->latest[chunk] = number;
  exchange->sent_at[chunk] = now;
  exchange->flying[chunk] = 1;
}

// Of the chunks ready[begin..end-1] up to `most` that are below `below` are sent, from transmission `number` on. They
// come to lie at ready[begin] and after it; the others keep their order. Returns how many.
uint64_t steady_send(const struct steady_exchange *exchange, uint64_t begin, uint64_t end, uint64_t most, int64_t below,
                     int64_t number, double now) {
  int64_t *ready = exchange->ready;
  uint64_t next = begin;
  for (uint64_t i = begin; i < end && next - begin < most; i++) {
    const int64_t chunk = ready[i];
    if (chunk >= below) continue;
    for (uint64_t k = i; k > next; k--) ready[k] = ready[k - 1];
    ready[next] = chunk;
    send(exchange, chunk, number + (int64_t)(next - begin), now);
    next++;
  }
  return next - begin;
}

static void note_latest(struct steady_landing *landing, int64_t number) {
  if (number <= landing->latest[0]) return;
  int i = 1;
  for (; i < REORDER_TOLERANCE && landing->latest[i] < number; i++) landing->latest[i - 1] = landing->latest[i];
  landing->latest[i - 1] = number;
}

static void skip_dead(const struct steady_exchange *exchange, struct steady_landing *landing) {
  for (; landing->head < landing->end; landing->head++) {
    const int64_t chunk = exchange->log[landing->head];
    if (exchange->flying[chunk] && exchange->latest[chunk] == (int64_t)landing->head) return;
  }
}

// The turn of a chunk has come when those one short and one long step before have their results.
static uint64_t queue(const struct steady_exchange *exchange, uint64_t chunk, uint64_t end) {
  if (chunk >= exchange->long_step && !exchange->landed[chunk - exchange->long_step]) return end;
  if (!exchange->landed[chunk - exchange->short_step]) return end;
  exchange->ready[end] = (int64_t)chunk;
  return end + 1;
}

// The results of the chunks first..last-1, all in flight, have arrived. Chunks whose turn comes with them are written
// to ready[end] and after it. Returns where they end.
uint64_t steady_land(const struct steady_exchange *exchange, uint64_t first, uint64_t last, uint64_t end,
                     struct steady_landing *landing) {
  *landing = (struct steady_landing){.head = landing->head, .end = landing->end};
  for (uint64_t chunk = first; chunk < last; chunk++) {
    exchange->flying[chunk] = 0;
    exchange->landed[chunk] = 1;
    note_latest(landing, exchange->first[chunk]);
    if (exchange->latest[chunk] != exchange->first[chunk]) continue;
    const double sent_at = exchange->sent_at[chunk];
    if (!landing->sent_once++ || sent_at < landing->sent_at) landing->sent_at = sent_at;
  }
  skip_dead(exchange, landing);
  // Each of these is one step behind a chunk of the run, so that it was not queued before.
  const uint64_t upto = last + exchange->long_step;
  for (uint64_t chunk = first + exchange->short_step; chunk < upto && chunk < exchange->chunks; chunk++)
    end = queue(exchange, chunk, end);
  return end;
}
