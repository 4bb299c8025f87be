// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// What happens to nearly every chunk: its turn comes, it is sent, and its result arrives with those of its neighbours.
#include "steady.h"

// Of the chunks ready[begin..end-1] those before the first that is not below `filled` are sent, from transmission
// `number` on. Returns how many.
uint64_t steady_send(const struct steady_exchange *exchange, uint64_t begin, uint64_t end, int64_t filled,
                     int64_t number, double now) {
  uint64_t i = begin;
  for (; i < end && exchange->ready[i] < filled; i++, number++) {
    const int64_t chunk = exchange->ready[i];
    exchange->log[number] = chunk;
    exchange->first[chunk] = exchange->latest[chunk] = number;
    exchange->sent_at[chunk] = now;
    exchange->flying[chunk] = 1;
  }
  return i - begin;
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
