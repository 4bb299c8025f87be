// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Received messages become datagrams: a message is one, or a train of them.
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "aggregator.h"
#include "controls.h"

// Appends datagram number `at`.
static void append(const struct aggregator_datagrams *out, uint64_t at, const uint8_t *data, uint32_t size) {
  const uint32_t head = size < SUMWIRE_BYTES ? size : SUMWIRE_BYTES;
  out->data[at] = data;
  out->sizes[at] = size;
  memcpy(out->heads + at * SUMWIRE_BYTES, data, head);
}

// Who sent it, and how, is the same for all datagrams of a message.
static void describe(const struct aggregator_datagrams *out, uint64_t from, uint64_t upto, const struct msghdr *message,
                     uint8_t tos) {
  const struct sockaddr_in *name = message->msg_name;
  for (uint64_t i = from; i < upto; i++) {
    out->sources[i] = name->sin_addr.s_addr;
    out->ports[i] = name->sin_port;
    out->tos[i] = tos;
  }
}

uint64_t aggregator_take_apart(struct mmsghdr *messages, uint64_t count, struct aggregator_datagrams *out) {
  uint64_t at = 0;
  out->longest = 1;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t first = at;
    const uint8_t *data = messages[i].msg_hdr.msg_iov->iov_base;
    const struct told told = read_controls(&messages[i].msg_hdr);
    uint32_t left = messages[i].msg_len, step = told.segment ? told.segment : left;
    do {
      const uint32_t size = left < step ? left : step;
      // There is room for all that a kernel joins.
      if (at == out->room) break;
      append(out, at++, data, size);
      data += size;
      left -= size;
    } while (left);
    describe(out, first, at, &messages[i].msg_hdr, told.tos);
    // The kernel has written how much it used. The next call has all of it again.
    messages[i].msg_hdr.msg_controllen = out->control_bytes;
    if (at - first > out->longest) out->longest = at - first;
  }
  return at;
}
