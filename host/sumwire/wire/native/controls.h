// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of a received message beside its bytes (sumwire.wire.messages).
#ifndef SUMWIRE_CONTROLS_H
#define SUMWIRE_CONTROLS_H

#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

// The bytes of each datagram, 0 if the message is a single one; and the TOS, 0 if it is not told.
struct told {
  uint32_t segment;
  uint8_t tos;
};

static inline struct told read_controls(struct msghdr *message) {
  struct told told = {0, 0};
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
    if (head->cmsg_level == SOL_UDP && head->cmsg_type == UDP_GRO) memcpy(&told.segment, CMSG_DATA(head), sizeof(int));
    else if (head->cmsg_level == SOL_IP && head->cmsg_type == IP_TOS) told.tos = *CMSG_DATA(head);
  }
  return told;
}

#endif
