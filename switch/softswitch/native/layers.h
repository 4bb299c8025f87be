// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Where in a frame the headers lie that a train's packets have in common.
#pragma once

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

#define SS_ETHERNET_BYTES 14u
#define SS_TAG_BYTES 4u
#define SS_TAGS_MOST 2u
#define SS_IPV6_BYTES 40u
#define SS_UDP_BYTES 8u

// Offsets in the headers.
#define SS_IPV4_LENGTH 2u
#define SS_IPV4_ID 4u
#define SS_IPV4_FRAGMENT 6u
#define SS_IPV4_CHECK 10u
#define SS_IPV4_ADDRESSES 12u
#define SS_IPV6_LENGTH 4u
#define SS_IPV6_ADDRESSES 8u
#define SS_TCP_SEQUENCE 4u
#define SS_TCP_FLAGS 13u
#define SS_TCP_CHECK 16u
#define SS_UDP_LENGTH 4u
#define SS_UDP_CHECK 6u

#define SS_TCP_FIN 0x01u
#define SS_TCP_PSH 0x08u
#define SS_TCP_ACK 0x10u
#define SS_TCP_ECE 0x40u
#define SS_TCP_CWR 0x80u

// Offsets in the frame of a TCP or UDP packet that is no fragment.
struct ss_layers {
  uint32_t network;
  uint32_t transport;
  uint32_t payload;
  uint8_t version;   // 4 or 6
  uint8_t protocol;  // IPPROTO_TCP or IPPROTO_UDP
};

// 0: the frame is something else, or ends within its headers. Up to two VLAN tags are skipped.
int ss_find_layers(const uint8_t *frame, uint32_t length, struct ss_layers *at);

// The sum of the addresses, the protocol, and `length`: that of the transport header and what follows.
uint64_t ss_pseudo_sum(const uint8_t *frame, const struct ss_layers *at, uint32_t length);

static inline uint16_t ss_get16(const uint8_t *at) {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return ntohs(value);
}

static inline uint32_t ss_get32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return ntohl(value);
}

static inline void ss_put16(uint8_t *at, uint32_t number) {
  uint16_t value = htons((uint16_t)number);
  memcpy(at, &value, sizeof value);
}

static inline void ss_put32(uint8_t *at, uint32_t number) {
  uint32_t value = htonl(number);
  memcpy(at, &value, sizeof value);
}

// Stores a checksum, which is in the machine's byte order already.
static inline void ss_put_check(uint8_t *at, uint16_t check) { memcpy(at, &check, sizeof check); }

// Offset of the checksum in the transport header.
static inline uint32_t ss_check_offset(const struct ss_layers *at) {
  return at->protocol == IPPROTO_TCP ? SS_TCP_CHECK : SS_UDP_CHECK;
}
