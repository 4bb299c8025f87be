// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// All that a process does when packets have come, in one call.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#include "aggregator.h"

// Most messages of one sendmmsg.
enum { MESSAGES_MAX = 1024 };

static uint64_t joined_of(const struct aggregator_socket *udp, const struct aggregator_datagrams *datagrams) {
  if (!udp->trains) return 1;
  return datagrams->longest > 1 ? datagrams->longest : TO_SINGLES;
}

// Returns how many messages were sent before the first error, which the next attempt meets again.
static uint64_t send_all(const struct aggregator_socket *udp, struct mmsghdr *messages, uint64_t count) {
  uint64_t done = 0;
  while (done < count) {
    const uint64_t left = count - done;
    const int sent = sendmmsg(udp->descriptor, messages + done, left < MESSAGES_MAX ? left : MESSAGES_MAX, 0);
    if (sent < 0) break;
    done += (uint64_t)sent;
  }
  return done;
}

int aggregator_serve(const struct aggregator_socket *udp, const struct aggregator_state *state,
                     struct aggregator_datagrams *datagrams, struct aggregator_batch *batch,
                     struct aggregator_replies *replies, const struct aggregator_messages *out,
                     struct aggregator_served *served) {
  *served = (struct aggregator_served){0};
  const int received = recvmmsg(udp->descriptor, udp->messages, (unsigned)udp->room, MSG_DONTWAIT, NULL);
  if (received < 0) return errno == EAGAIN || errno == EINTR ? 0 : errno;
  served->datagrams = aggregator_take_apart(udp->messages, (uint64_t)received, datagrams);
  if (served->datagrams > udp->most) return 0;
  batch->count = served->datagrams;
  served->replies = aggregator_process(state, batch, replies);
  served->messages = aggregator_arrange(replies, served->replies, joined_of(udp, datagrams), out);
  served->sent = send_all(udp, out->messages, served->messages);
  return 0;
}
