// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// An exchange while nothing happens but the usual: results arrive in runs, and for each one more chunk is sent.
// sumwire.transport.exchange tells when that is so, and takes over at the first thing that is not usual.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "runs.h"
#include "steady.h"

// sumwire.wire's functions and what they work on.
struct fast_path_socket {
  int (*collect)(void *arrivals, int socket, uint64_t wanted, int64_t nanoseconds);
  void *arrivals;
  const uint64_t *filled;
  const uint64_t *marked;
  uint64_t (*cut)(void *trains, const int64_t *rows, uint64_t count, uint64_t longest);
  void *trains;
  struct mmsghdr *out;
  int64_t collect_ns;
  uint64_t row_bytes;
  uint64_t batch;
  int descriptor;
  // Of a job with a key, else NULL: packets get tags, and messages are checked.
  void (*write_tags)(const void *key, uint8_t *rows, uint64_t row_bytes, const int64_t *numbers, uint64_t count);
  uint64_t (*check_tags)(const void *key, const void *messages, uint64_t count);
  const void *key;
  uint8_t *rows;
};

struct fast_path {
  struct fast_path_socket *socket;
  const struct runs_messages *messages;
  struct runs_exchange *run;
  const struct steady_exchange *exchange;
  // Fixed for a call.
  double until_s;
  uint64_t until_prefix;
  // Chunks are sent below `filled`, and below so many (`spread`) after the first one without a result.
  int64_t filled;
  uint64_t spread;
  // It waits for results until `until_s`; otherwise it takes in what is there.
  uint64_t waits;
  // Python knows that few chunks are in flight, and nothing else can be sent before their results.
  uint64_t at_end;
  // Chunks may count as overtaken also while others wait for their turn.
  uint64_t adaptive;
  uint64_t most_in_flight;
  uint64_t longest_train;
  // Before and after.
  struct steady_landing landing;
  int64_t answered[REORDER_TOLERANCE];
  uint64_t taken;
  uint64_t to;
  uint64_t last_first;
  uint64_t in_flight;
  uint64_t prefix;
  uint64_t longest_in;
  // What happened.
  uint64_t results;
  uint64_t messages_in;
  uint64_t messages_out;
  uint64_t sent;
  uint64_t held;
  double began;
  double now;
  double round_trip_from;
  uint64_t round_trips;
  uint64_t drained;
  uint64_t forged;
  int error;
};

static double clock_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Whether the socket has something to read in time.
static int wait_for_results(struct fast_path *path, int *outcome) {
  const double left = path->until_s - clock_s();
  *outcome = path->waits || left <= 0 ? TIME_OVER : ENOUGH;
  if (path->waits && left <= 0) return 0;
  const double patience = path->waits ? left : 0;
  const struct timespec timeout = {(time_t)patience, (long)((patience - (double)(time_t)patience) * 1e9)};
  struct pollfd polled = {path->socket->descriptor, POLLIN, 0};
  return ppoll(&polled, 1, &timeout, NULL) > 0;
}

// Messages for half of what is in flight, so that the process is not woken for each one.
static uint64_t wanted_messages(const struct fast_path *path) {
  const uint64_t wanted = path->in_flight / COLLECTED_PART;
  if (wanted < 2) return 0;
  const uint64_t messages = wanted / path->longest_in;
  return messages < 1 ? 1 : messages > path->socket->batch ? path->socket->batch : messages;
}

static void note(struct fast_path *path, uint64_t count) {
  for (int i = 0; i < REORDER_TOLERANCE; i++) {
    const int64_t number = path->landing.latest[i];
    if (number <= path->answered[0]) continue;
    int place = 1;
    for (; place < REORDER_TOLERANCE && path->answered[place] < number; place++) path->answered[place - 1] = path->answered[place];
    path->answered[place - 1] = number;
  }
  if (path->landing.sent_once) path->round_trip_from = path->landing.sent_at;
  path->round_trips += path->landing.sent_once > 0;
  path->results += count;
  path->in_flight -= count;
  while (path->prefix < path->exchange->chunks && path->exchange->landed[path->prefix]) path->prefix++;
}

// Takes in what has arrived. Returns whether all of it was usual.
static int receive(struct fast_path *path, int *outcome) {
  const struct fast_path_socket *on = path->socket;
  path->began = clock_s();
  path->error = on->collect(on->arrivals, on->descriptor, wanted_messages(path), on->collect_ns);
  path->now = clock_s();
  *outcome = RECEIVE_FAILED;
  if (path->error) return 0;
  path->messages_in += *on->filled;
  path->drained = *on->filled < on->batch;
  // A wrong tag costs the packet its kind, so it is not usual.
  if (on->key) path->forged += on->check_tags(on->key, path->messages, *on->filled);
  // Marks of queues are for the congestion window, which Python keeps.
  const uint64_t count = *on->filled && !*on->marked ? runs_take(path->messages, *on->filled, path->run) : 0;
  *outcome = OTHER_MESSAGES;
  if (!count) return 0;
  const uint64_t kept = path->longest_in * 7 / 8;
  path->longest_in = path->run->longest > kept ? path->run->longest : kept;
  path->to = steady_land(path->exchange, path->run->first, path->run->first + count, path->to, &path->landing);
  note(path, count);
  return 1;
}

// Sends all chunks that may be sent now. Returns whether the socket took them all.
static int send_ready(struct fast_path *path) {
  const struct fast_path_socket *on = path->socket;
  const uint64_t room = path->most_in_flight > path->in_flight ? path->most_in_flight - path->in_flight : 0;
  const int64_t spread = (int64_t)(path->prefix + path->spread);
  const int64_t below = path->filled < spread ? path->filled : spread;
  uint64_t left =
      steady_send(path->exchange, path->taken, path->to, room, below, (int64_t)path->landing.end, path->now);
  const int64_t *rows = path->exchange->ready + path->taken;
  path->taken += left;
  path->landing.end += left;
  path->in_flight += left;
  if (left) path->last_first = path->landing.end - 1;
  // Only now: flags of a packet change until it is sent.
  if (left && on->key) on->write_tags(on->key, on->rows, on->row_bytes, rows, left);
  while (left) {
    const uint64_t messages = on->cut(on->trains, rows, left, path->longest_train);
    const int sent = sendmmsg(on->descriptor, on->out, (unsigned)messages, MSG_DONTWAIT);
    path->held = left;
    if (sent < 0) path->error = errno;
    if (sent <= 0) return 0;
    uint64_t bytes = 0;
    for (int i = 0; i < sent; i++) bytes += on->out[i].msg_hdr.msg_iov->iov_len;
    path->messages_out += (uint64_t)sent;
    path->sent += bytes / on->row_bytes;
    left -= bytes / on->row_bytes;
    rows += bytes / on->row_bytes;
    path->held = left;
  }
  return 1;
}

// Whether a chunk counts as lost, as sumwire.transport.window judges. When the last chunk that can be sent is answered,
// nothing can follow to overtake the few still open.
static int is_overtaken(const struct fast_path *path) {
  const uint64_t oldest = path->landing.head, latest = (uint64_t)path->answered[REORDER_TOLERANCE - 1];
  if (oldest < (uint64_t)path->answered[0]) return 1;
  const int drained = path->taken == path->exchange->chunks || (path->adaptive && path->taken == path->to);
  if (!drained || path->in_flight > REORDER_TOLERANCE) return 0;
  return latest == path->last_first && oldest < latest;
}

// Sends what may be sent. Returns ENOUGH or HELD.
int fast_path_send(struct fast_path *path) {
  path->now = clock_s();
  return send_ready(path) ? ENOUGH : HELD;
}

// Takes in results and sends what they allow. Returns why it ended: an outcome of constants.h.
int fast_path_run(struct fast_path *path) {
  int outcome;
  for (;;) {
    if (!wait_for_results(path, &outcome)) return outcome;
    if (!receive(path, &outcome)) return outcome;
    if (is_overtaken(path)) return OVERTAKEN;
    if (!send_ready(path)) return HELD;
    if (!path->waits) return path->now < path->until_s ? ENOUGH : TIME_OVER;
    if (path->prefix >= path->until_prefix) return ENOUGH;
    if (!path->at_end && path->in_flight <= TIMEOUT_BURST_CHUNKS && path->taken == path->to) return FEW_LEFT;
  }
}
