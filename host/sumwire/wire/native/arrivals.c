// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Messages are taken from a socket.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

// The messages of a receiving call. The values of their control messages (int32_t) lie `control_bytes` apart, the room
// for one control message. `filled`: how many messages the latest call has used.
struct arrivals_in {
  struct mmsghdr *messages;
  uint8_t *controls;
  uint64_t control_bytes;
  uint64_t room;
  uint64_t filled;
};

// The kernel has overwritten those that it used.
static void renew(struct arrivals_in *in) {
  for (uint64_t i = 0; i < in->filled; i++) {
    in->messages[i].msg_hdr.msg_controllen = in->control_bytes;
    memset(in->controls + i * in->control_bytes, 0, sizeof(int32_t));
  }
  in->filled = 0;
}

// Receives up to `most` messages behind those that are filled. Returns 0, or the number of an error.
static int receive(struct arrivals_in *in, int socket, uint64_t most, int flags, struct timespec *timeout) {
  if (!most) return 0;
  const int received = recvmmsg(socket, in->messages + in->filled, (unsigned)most, flags, timeout);
  if (received < 0) return errno == EAGAIN || errno == EINTR ? 0 : errno;
  in->filled += (uint64_t)received;
  return 0;
}

// Receives the messages that have arrived; before these up to `wanted`, for which it waits so long. Returns 0, or the
// number of an error.
int arrivals_collect(struct arrivals_in *in, int socket, uint64_t wanted, int64_t nanoseconds) {
  renew(in);
  struct timespec timeout = {.tv_nsec = nanoseconds};
  const int error = receive(in, socket, wanted, 0, &timeout);
  return error ? error : receive(in, socket, in->room - in->filled, MSG_DONTWAIT, NULL);
}
