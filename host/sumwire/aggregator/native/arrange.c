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

// Every reply has two vectors: its header and its payload.
enum { PARTS = 2 };

// Sorts replies by place, and within a place in their order. starts[place] is its first.
static void sort_by_place(const struct aggregator_replies *replies, uint64_t count,
                          const struct aggregator_messages *out) {
  uint64_t *starts = out->starts;
  memset(starts, 0, (out->place_count + 1) * sizeof *starts);
  for (uint64_t i = 0; i < count; i++) starts[replies->places[i] + 1]++;
  for (uint64_t p = 0; p < out->place_count; p++) starts[p + 1] += starts[p];
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t at = starts[replies->places[i]]++;
    struct iovec *vectors = out->vectors + PARTS * at;
    vectors[0] = (struct iovec){replies->heads + i * SUMWIRE_BYTES, SUMWIRE_BYTES};
    vectors[1].iov_base = replies->payloads + (uint64_t)replies->payload_of[i] * PAYLOAD_BYTES;
    vectors[1].iov_len = replies->sizes[i] - SUMWIRE_BYTES;
    out->tos[at] = replies->tos[i];
  }
  // Each start has advanced to that of the next place.
  memmove(starts + 1, starts, out->place_count * sizeof *starts);
  starts[0] = 0;
}

// Appends a control message with `bytes` bytes of `data`.
static void append_control(struct msghdr *message, int level, int type, const void *data, size_t bytes) {
  struct cmsghdr *head = (struct cmsghdr *)((uint8_t *)message->msg_control + message->msg_controllen);
  head->cmsg_level = level;
  head->cmsg_type = type;
  head->cmsg_len = CMSG_LEN(bytes);
  memcpy(CMSG_DATA(head), data, bytes);
  message->msg_controllen += CMSG_SPACE(bytes);
}

// Tells the kernel the size of the datagrams that it cuts a message into, and their TOS.
static void add_controls(struct msghdr *message, uint8_t *controls, uint64_t run, uint8_t tos) {
  const uint16_t size = (uint16_t)(SUMWIRE_BYTES + message->msg_iov[1].iov_len);
  const int value = tos;
  if (run == 1 && tos == TOS_PLAIN_REPLY) return;
  message->msg_control = controls;
  if (run > 1) append_control(message, SOL_UDP, UDP_SEGMENT, &size, sizeof size);
  if (tos != TOS_PLAIN_REPLY) append_control(message, SOL_IP, IP_TOS, &value, sizeof value);
}

static uint64_t run_length(const struct iovec *vectors, const uint8_t *tos, uint64_t left, uint64_t most) {
  const uint64_t bytes = vectors[1].iov_len, fit = TRAIN_BYTES / (SUMWIRE_BYTES + bytes);
  uint64_t run = 1;
  if (most > fit) most = fit;
  while (run < left && run < most && vectors[PARTS * run + 1].iov_len == bytes && tos[run] == tos[0]) run++;
  return run;
}

uint64_t aggregator_arrange(const struct aggregator_replies *replies, uint64_t count, uint64_t joined,
                            const struct aggregator_messages *out) {
  uint64_t made = 0;
  sort_by_place(replies, count, out);
  for (uint64_t place = 0; place < out->place_count; place++) {
    for (uint64_t at = out->starts[place]; at < out->starts[place + 1]; made++) {
      const uint64_t run = run_length(out->vectors + PARTS * at, out->tos + at, out->starts[place + 1] - at, joined);
      struct msghdr *message = &out->messages[made].msg_hdr;
      *message = (struct msghdr){.msg_name = (void *)(out->names + place * out->name_bytes),
                                 .msg_namelen = (socklen_t)out->name_bytes,
                                 .msg_iov = out->vectors + PARTS * at,
                                 .msg_iovlen = PARTS * run};
      add_controls(message, out->controls + made * out->control_bytes, run, out->tos[at]);
      at += run;
    }
  }
  return made;
}
