// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Messages are taken from a socket.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "constants.h"
#include "controls.h"

// The messages of a receiving call. Each has room for `control_bytes` of control messages. Of those that the latest call
// has `filled`: the bytes of each datagram (`segments`, 0 if the message is a single one), and whether a queue has marked
// it (`marks`); `marked` counts these.
struct arrivals_in {
  struct mmsghdr *messages;
  uint64_t control_bytes;
  uint32_t *segments;
  uint8_t *marks;
  uint64_t room;
  uint64_t filled;
  uint64_t marked;
};

// The kernel has written how much it used.
static void renew(struct arrivals_in *in) {
  for (uint64_t i = 0; i < in->filled; i++) in->messages[i].msg_hdr.msg_controllen = in->control_bytes;
  in->filled = in->marked = 0;
}

static void note(struct arrivals_in *in, uint64_t message) {
  const struct told told = read_controls(&in->messages[message].msg_hdr);
  in->segments[message] = told.segment;
  in->marks[message] = (told.tos & ECN_BITS) == ECN_CE;
  in->marked += in->marks[message];
}

// Receives up to `most` messages behind those that are filled. Returns 0, or the number of an error.
static int receive(struct arrivals_in *in, int socket, uint64_t most, int flags, struct timespec *timeout) {
  if (!most) return 0;
  const int received = recvmmsg(socket, in->messages + in->filled, (unsigned)most, flags, timeout);
  if (received < 0) return errno == EAGAIN || errno == EINTR ? 0 : errno;
  for (int i = 0; i < received; i++) note(in, in->filled++);
  return 0;
}

// Receives the messages that have arrived; before these up to `wanted`, for which it waits so long. Returns 0, or the
// number of an error if none have arrived.
int arrivals_collect(struct arrivals_in *in, int socket, uint64_t wanted, int64_t nanoseconds) {
  renew(in);
  struct timespec timeout = {.tv_nsec = nanoseconds};
  const int error = receive(in, socket, wanted, 0, &timeout);
  if (error) return error;
  const int later = receive(in, socket, in->room - in->filled, MSG_DONTWAIT, NULL);
  // An error tells of a datagram that was sent. It must not cost those that have arrived.
  return in->filled ? 0 : later;
}
