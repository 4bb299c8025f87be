// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#include "window.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_SLOT UINT32_MAX

// ---- timers: RFC 6298 ----------------------------------------------------------------------------------

static struct rtt rtt_of(double initial, double least, double most) {
  return (struct rtt){.base = initial, .timeout = initial, .least = least, .most = most};
}

static void rtt_sample(struct rtt *rtt, double seconds) {
  if (!rtt->known) {
    rtt->known = true;
    rtt->smoothed = seconds;
    rtt->variation = seconds / 2;
  } else {
    rtt->variation += RTT_BETA * (fabs(rtt->smoothed - seconds) - rtt->variation);
    rtt->smoothed += RTT_ALPHA * (seconds - rtt->smoothed);
  }
  rtt->base = rtt->timeout = fmin(fmax(rtt->smoothed + RTT_K * rtt->variation, rtt->least), rtt->most);
}

static void settle(struct window *window) {
  window->path.timeout = window->path.base;
  window->hurried.timeout = window->hurried.base;
  window->backed_off = false;
}

static struct rtt *timer(struct window *window) { return window->sampled ? &window->path : &window->hurried; }

static double reordering_s(const struct window *window) {
  return window->path.known ? PATHS_ROUND_TRIPS * window->path.smoothed : window->hurried.timeout;
}

static double end_timeout_s(const struct window *window) {
  const double seconds = window->hurried.timeout;
  return window->reordering ? fmax(seconds, reordering_s(window)) : seconds;
}

static double expiry(struct window *window, double oldest_sent_at, bool at_end) {
  const double start = fmax(oldest_sent_at, window->timer_from), usual = start + timer(window)->timeout;
  return at_end ? fmin(usual, fmax(start, window->progress_at) + end_timeout_s(window)) : usual;
}

static void expire(struct window *window, double now, bool at_end) {
  const bool progress = window->progress_at > window->timer_from;
  window->burst = window->burst_size = progress ? window->burst_size * 2 : TIMEOUT_BURST_CHUNKS;
  const double waited = at_end ? end_timeout_s(window) : timer(window)->timeout;
  window->expired_at = now - fmin(waited, timer(window)->timeout);
  window->timer_from = now;
  if (window->sampled) window->path.timeout = fmin(window->path.timeout * 2, window->path.most);
  window->hurried.timeout = fmin(window->hurried.timeout * 2, window->hurried.most);
  window->backed_off = true;
}

// ---- whether later results may come first --------------------------------------------------------------

static void judge(struct window *window) {
  const double share = 1 - 1.0 / (2 * (window->workers + 1));
  window->reordering = window->several_paths || window->needless >= share * fmax(window->sent_again, JUDGED);
}

static void note_sent_again(struct window *window) {
  window->sent_again += 1;
  if (window->sent_again > 2 * JUDGED) {
    window->sent_again /= 2;
    window->needless /= 2;
  }
  judge(window);
}

// ---- the limit -----------------------------------------------------------------------------------------

static void limit_reduce(struct window_limit *limit, double factor, uint32_t least, double now) {
  limit->slow_start = false;
  if (now - limit->reduced_at < (limit->known ? limit->smoothed : 0)) return;
  limit->reduced_at = now;
  limit->size = fmin(limit->size, fmax(limit->size * factor, least));
}

static void limit_sample(struct window_limit *limit, double seconds) {
  if (!limit->known) {
    limit->known = true;
    limit->smoothed = limit->shortest = seconds;
    return;
  }
  limit->smoothed += (seconds - limit->smoothed) / 8;
  limit->shortest = fmin(limit->shortest, seconds);
}

static void limit_result(struct window_limit *limit, bool marked, double now) {
  const bool delayed = limit->known && limit->smoothed > fmax(DELAY_TIMES * limit->shortest, limit->shortest + DELAY_ABOVE_S);
  if (marked) limit_reduce(limit, 1 - limit->share / 2, limit->least, now);
  else if (delayed) limit_reduce(limit, DELAY_FACTOR, limit->most < DELAY_LEAST_CHUNKS ? limit->most : DELAY_LEAST_CHUNKS, now);
  else limit->size = fmin(limit->size + (limit->slow_start ? 1 : 1 / limit->size), limit->most);
  if (limit->slow_start) return;
  limit->seen += 1;
  limit->marked += marked;
  if (limit->seen >= limit->size) {
    limit->share += MARKS_GAIN * (limit->marked / limit->seen - limit->share);
    limit->seen = limit->marked = 0;
  }
}

// ---- the chunks in flight, oldest first, and those that are due ------------------------------------------

static uint32_t slot_of(const struct window *window, uint64_t chunk) {
  // A division costs as much as all the rest.
  const uint64_t sequence = window->base + chunk;
  return window->mask ? (uint32_t)sequence & window->mask : (uint32_t)(sequence % window->slots);
}

static bool landed(const struct window *window, uint64_t chunk) {
  const struct window_slot *slot = &window->slot[slot_of(window, chunk)];
  return slot->chunk != NO_CHUNK && (slot->chunk > chunk || (slot->chunk == chunk && !slot->flying));
}

static void unlink_slot(struct window *window, uint32_t number) {
  const struct window_slot *slot = &window->slot[number];
  *(slot->before == NO_SLOT ? &window->oldest : &window->slot[slot->before].after) = slot->after;
  *(slot->after == NO_SLOT ? &window->newest : &window->slot[slot->after].before) = slot->before;
}

static void transmit(struct window *window, uint32_t number, double now) {
  struct window_slot *slot = &window->slot[number];
  slot->latest = window->next_number++;
  slot->sent_at = now;
  slot->before = window->newest;
  slot->after = NO_SLOT;
  *(window->newest == NO_SLOT ? &window->oldest : &window->slot[window->newest].after) = number;
  window->newest = number;
}

static void send_first(struct window *window, uint64_t chunk, double now) {
  const uint32_t number = slot_of(window, chunk);
  struct window_slot *slot = &window->slot[number];
  slot->chunk = (uint32_t)chunk;
  slot->flying = true;
  transmit(window, number, now);
  slot->first = window->last_first = slot->latest;
  window->in_flight++;
  window->sent++;
}

static void send_again(struct window *window, uint32_t number, double now) {
  const uint64_t chunk = window->slot[number].chunk;
  unlink_slot(window, number);
  transmit(window, number, now);
  window->twice[chunk / 8] |= 1 << chunk % 8;
  window->resends = true;
  window->sent++;
}

static uint32_t *ready_at(struct window *window, uint32_t place) {
  return &window->ready[(window->ready_head + place) % window->slots];
}

static void follow(struct window *window, uint64_t chunk) {
  const uint64_t near = window->slots / 2, far = window->slots - near;
  for (int k = 0; k < (near == far ? 1 : 2); k++) {
    const uint64_t follower = chunk + (k ? far : near), other = k ? near : far;
    if (follower >= window->chunks) continue;
    if (near != far && follower >= other && !landed(window, follower - other)) continue;
    *ready_at(window, window->ready_count++) = (uint32_t)follower;
  }
}

static void remove_ready(struct window *window, uint32_t place) {
  for (; place > 0; place--) *ready_at(window, place) = *ready_at(window, place - 1);
  window->ready_head = (window->ready_head + 1) % window->slots;
  window->ready_count--;
}

static void sort_ready(struct window *window) {
  for (uint32_t i = 1; i < window->ready_count; i++)
    for (uint32_t k = i; k > 0 && *ready_at(window, k - 1) > *ready_at(window, k); k--) {
      const uint32_t larger = *ready_at(window, k - 1);
      *ready_at(window, k - 1) = *ready_at(window, k);
      *ready_at(window, k) = larger;
    }
}

// ---- the window ----------------------------------------------------------------------------------------

struct window *window_new(uint32_t slots, uint32_t workers, bool several_paths, bool limited) {
  struct window *window = calloc(1, sizeof *window);
  window->slots = slots;
  window->mask = (slots & (slots - 1)) == 0 ? slots - 1 : 0;
  window->workers = workers;
  window->several_paths = window->reordering = several_paths;
  window->slot = calloc(slots, sizeof *window->slot);
  window->ready = calloc(slots, sizeof *window->ready);
  window->path = rtt_of(RTT_INITIAL_S, RTT_LEAST_S, RTT_MOST_S);
  window->hurried = rtt_of(SHORT_TIMEOUT_S, SHORT_TIMEOUT_S, RTT_MOST_S);
  window->burst_size = TIMEOUT_BURST_CHUNKS;
  const uint32_t most = slots / 2;
  window->limit = (struct window_limit){
      .used = limited, .slow_start = true, .most = most, .least = LEAST_CHUNKS < most ? LEAST_CHUNKS : most,
      .size = START_CHUNKS < most ? START_CHUNKS : most, .share = 1,
  };
  return window;
}

void window_free(struct window *window) {
  free(window->slot);
  free(window->ready);
  free(window->twice);
  free(window);
}

void window_begin(struct window *window, uint64_t chunks, uint64_t filled, bool sampled, double now) {
  window->base += window->chunks;
  window->chunks = window->open = chunks;
  window->filled = filled;
  window->prefix = window->last_first = 0;
  window->next_number = 1;
  window->in_flight = 0;
  window->oldest = window->newest = NO_SLOT;
  window->resends = false;
  for (uint32_t k = 0; k < window->slots; k++) window->slot[k] = (struct window_slot){.chunk = NO_CHUNK};
  memset(window->answered, 0, sizeof window->answered);
  if (window->twice_room < chunks / 8 + 1) {
    window->twice_room = chunks / 8 + 1;
    window->twice = realloc(window->twice, window->twice_room);
  }
  memset(window->twice, 0, chunks / 8 + 1);
  window->ready_head = 0;
  window->ready_count = (uint32_t)(chunks < window->slots / 2 ? chunks : window->slots / 2);
  for (uint32_t k = 0; k < window->ready_count; k++) window->ready[k] = k;
  window->sampled = sampled;
  window->burst = 0;
  window->burst_size = TIMEOUT_BURST_CHUNKS;
  window->timer_from = window->progress_at = now;
  if (window->backed_off) settle(window);
}

void window_fill(struct window *window, uint64_t filled) { window->filled = filled; }

static bool drained(const struct window *window) { return window->open == window->in_flight; }

static bool at_end(const struct window *window) {
  return drained(window) && window->in_flight <= TIMEOUT_BURST_CHUNKS;
}

// Transmissions with a smaller number are overtaken.
static uint32_t overtaken_before(const struct window *window) {
  const uint32_t latest = window->answered[REORDER_TOLERANCE - 1];
  const bool last = latest == window->last_first && drained(window) && window->in_flight <= REORDER_TOLERANCE;
  return last ? latest : window->answered[0];
}

static uint32_t overtaken(const struct window *window, double now) {
  const uint32_t oldest = window->oldest;
  if (oldest == NO_SLOT || window->slot[oldest].latest >= overtaken_before(window)) return NO_SLOT;
  if (window->reordering && window->slot[oldest].sent_at > now - reordering_s(window)) return NO_SLOT;
  return oldest;
}

static uint32_t allowed(struct window *window) {
  const struct window_limit *limit = &window->limit;
  const uint32_t chunks = (uint32_t)limit->size;
  const uint32_t free_places = chunks > window->in_flight ? chunks - window->in_flight : 0;
  if (!limit->used || chunks == limit->most) return limit->used ? free_places : UINT32_MAX;
  sort_ready(window);
  uint64_t farthest = 0;
  for (uint32_t k = window->oldest; k != NO_SLOT; k = window->slot[k].after)
    if (window->slot[k].chunk > farthest) farthest = window->slot[k].chunk;
  uint32_t behind = 0;
  while (window->in_flight && behind < window->ready_count && *ready_at(window, behind) < farthest) behind++;
  return free_places > behind ? free_places : behind;
}

static bool take_ready(struct window *window, double now, uint64_t *chunk) {
  if (window->ready_count == 0 || allowed(window) == 0) return false;
  uint64_t below = window->filled;
  if (window->chunks > (uint64_t)SPREAD_ROUNDS * window->slots) {
    while (window->prefix < window->chunks && landed(window, window->prefix)) window->prefix++;
    const uint64_t spread = window->prefix + (uint64_t)SPREAD_ROUNDS * window->slots;
    below = spread < below ? spread : below;
  }
  for (uint32_t place = 0; place < window->ready_count; place++) {
    if ((*chunk = *ready_at(window, place)) >= below) continue;
    remove_ready(window, place);
    send_first(window, *chunk, now);
    return true;
  }
  return false;
}

static bool take_expired(struct window *window, double now, uint64_t *chunk) {
  if (window->oldest == NO_SLOT) return false;
  if (window->burst == 0) {
    const bool end = at_end(window);
    if (now < expiry(window, window->slot[window->oldest].sent_at, end)) return false;
    expire(window, now, end);
  }
  if (window->slot[window->oldest].sent_at > window->expired_at) {
    window->burst = 0;
    return false;
  }
  *chunk = window->slot[window->oldest].chunk;
  send_again(window, window->oldest, now);
  window->resent_timeout++;
  window->burst--;
  return true;
}

enum window_send window_take(struct window *window, double now, uint64_t *chunk) {
  const uint32_t lost = overtaken(window, now);
  if (lost != NO_SLOT) {
    *chunk = window->slot[lost].chunk;
    window->resent_quick++;
    note_sent_again(window);
    send_again(window, lost, now);
    return SEND_AGAIN;
  }
  if (take_ready(window, now, chunk)) return SEND_FIRST;
  return take_expired(window, now, chunk) ? SEND_AGAIN : NOTHING_TO_SEND;
}

static void note_answered(struct window *window, uint32_t number) {
  if (number <= window->answered[0]) return;
  int place = 1;
  for (; place < REORDER_TOLERANCE && window->answered[place] < number; place++)
    window->answered[place - 1] = window->answered[place];
  window->answered[place - 1] = number;
}

bool window_result(struct window *window, uint64_t sequence, bool marked, double now) {
  const uint64_t chunk = sequence - window->base;
  if (sequence < window->base || chunk >= window->chunks) {
    window->duplicates++;
    return false;
  }
  const uint32_t number = slot_of(window, chunk);
  struct window_slot *slot = &window->slot[number];
  if (slot->chunk != chunk || !slot->flying) {
    if (window->resends) {
      window->needless += window->twice[chunk / 8] >> chunk % 8 & 1;
      judge(window);
    }
    window->duplicates++;
    return false;
  }
  unlink_slot(window, number);
  slot->flying = false;
  window->in_flight--;
  window->open--;
  window->progress_at = now;
  note_answered(window, slot->first);
  const bool sample = window->sampled && slot->first == slot->latest;
  const double seconds = now - slot->sent_at;
  if (sample) rtt_sample(&window->path, seconds);
  if (window->backed_off) settle(window);
  if (window->limit.used) {
    if (sample) limit_sample(&window->limit, seconds);
    limit_result(&window->limit, marked, now);
  }
  follow(window, chunk);
  return true;
}

double window_wakes(struct window *window) {
  if (window->oldest == NO_SLOT) return INFINITY;
  const double sent_at = window->slot[window->oldest].sent_at;
  const double usual = expiry(window, sent_at, at_end(window));
  const bool waits = window->reordering && window->slot[window->oldest].latest < overtaken_before(window);
  return waits ? fmin(usual, sent_at + reordering_s(window)) : usual;
}
