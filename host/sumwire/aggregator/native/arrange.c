// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Replies become messages for sendmmsg.
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "aggregator.h"

// Vectors sorted by place, in order of the replies within one. starts[place] is its first.
static void sort_by_place(const struct aggregator_replies *replies, uint64_t count,
                          const struct aggregator_messages *out) {
  uint64_t *starts = out->starts;
  memset(starts, 0, (out->place_count + 1) * sizeof *starts);
  for (uint64_t i = 0; i < count; i++) starts[replies->places[i] + 1]++;
  for (uint64_t p = 0; p < out->place_count; p++) starts[p + 1] += starts[p];
  for (uint64_t i = 0; i < count; i++) {
    struct iovec *vector = &out->vectors[starts[replies->places[i]]++];
    vector->iov_base = replies->rows + i * replies->row_bytes;
    vector->iov_len = replies->sizes[i];
  }
  // Every start has moved on to the next one's.
  memmove(starts + 1, starts, out->place_count * sizeof *starts);
  starts[0] = 0;
}

// The control message with which the kernel cuts what follows into datagrams of `size`.
static void cut_into(uint8_t *control, uint16_t size, struct msghdr *message) {
  struct msghdr only = {.msg_control = control, .msg_controllen = CMSG_SPACE(sizeof size)};
  struct cmsghdr *head = CMSG_FIRSTHDR(&only);
  head->cmsg_level = SOL_UDP;
  head->cmsg_type = UDP_SEGMENT;
  head->cmsg_len = CMSG_LEN(sizeof size);
  memcpy(CMSG_DATA(head), &size, sizeof size);
  message->msg_control = control;
  message->msg_controllen = CMSG_SPACE(sizeof size);
}

static uint64_t run_length(const struct iovec *vectors, uint64_t left, uint64_t most) {
  uint64_t run = 1;
  while (run < left && run < most && vectors[run].iov_len == vectors[0].iov_len) run++;
  return run;
}

uint64_t aggregator_arrange(const struct aggregator_replies *replies, uint64_t count, uint64_t joined,
                            const struct aggregator_messages *out) {
  uint64_t made = 0;
  sort_by_place(replies, count, out);
  for (uint64_t place = 0; place < out->place_count; place++) {
    for (uint64_t at = out->starts[place]; at < out->starts[place + 1]; made++) {
      const uint64_t run = run_length(out->vectors + at, out->starts[place + 1] - at, joined);
      struct msghdr *message = &out->messages[made].msg_hdr;
      *message = (struct msghdr){.msg_name = (void *)(out->names + place * out->name_bytes),
                                 .msg_namelen = (socklen_t)out->name_bytes,
                                 .msg_iov = out->vectors + at,
                                 .msg_iovlen = run};
      if (run > 1) cut_into(out->controls + made * out->control_bytes, (uint16_t)out->vectors[at].iov_len, message);
      at += run;
    }
  }
  return made;
}
