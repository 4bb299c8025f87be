// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// When a worker sends which chunk: the rules of sumwire.transport.window (plain retries, marks), in the memory of its
// slots. tests/differential/test_simulated_window.py holds it to that module chunk by chunk.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "constants.h"

#define NO_CHUNK UINT32_MAX

struct rtt {
  double smoothed, variation, base, timeout, least, most;
  bool known;
};

// One slot: the newest chunk of the exchange that used it. A chunk's number counts from the exchange's first. An
// exchange has fewer than 2^32 chunks and transmissions.
struct window_slot {
  double sent_at;          // its latest transmission, in seconds
  uint32_t chunk;          // NO_CHUNK: none yet
  uint32_t first, latest;  // numbers of its transmissions
  uint32_t before, after;  // the neighbours in flight, by their latest transmissions
  bool flying;
};

// The congestion window of sumwire.transport.congestion.
struct window_limit {
  bool used, slow_start, known;
  uint32_t most, least;
  double size, smoothed, shortest, reduced_at, share, seen, marked;
};

struct window {
  uint32_t slots, mask, workers;  // mask: of a sequence number, where slots are a power of two
  bool several_paths;
  uint64_t base, chunks, open, filled, prefix;
  uint32_t last_first, next_number, in_flight, oldest, newest;
  struct window_slot *slot;
  uint32_t *ready;          // chunks whose turn has come, in order: a ring of `slots` places
  uint32_t ready_head, ready_count;
  uint8_t *twice;           // a bit a chunk: sent more than once
  uint64_t twice_room;
  uint32_t answered[REORDER_TOLERANCE];
  struct rtt path, hurried;  // the usual timer and the short one
  bool sampled, backed_off, resends;
  uint32_t burst, burst_size;
  double expired_at, progress_at, timer_from;
  bool reordering;
  double sent_again, needless;
  struct window_limit limit;
  uint64_t sent, resent_quick, resent_timeout, duplicates;
};

enum window_send { NOTHING_TO_SEND, SEND_FIRST, SEND_AGAIN };

// `limited`: marks and round trips limit the window. The memory is the caller's until window_free.
struct window *window_new(uint32_t slots, uint32_t workers, bool several_paths, bool limited);
void window_free(struct window *window);
// Begins an exchange whose first `filled` chunks are ready. `sampled`: its round trips are samples of the path.
void window_begin(struct window *window, uint64_t chunks, uint64_t filled, bool sampled, double now);
// Declares chunks ready.
void window_fill(struct window *window, uint64_t filled);
// Takes one chunk to send now: its number in the exchange comes to `chunk`.
enum window_send window_take(struct window *window, double now, uint64_t *chunk);
// The result of a sequence number has arrived. Returns whether it is a new one.
bool window_result(struct window *window, uint64_t sequence, bool marked, double now);
// When window_take has something to do though nothing arrives; infinity if never.
double window_wakes(struct window *window);
