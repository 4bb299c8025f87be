// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0

#include "layers.h"

#include "checksum.h"

#include <net/ethernet.h>

#define MORE_FRAGMENTS_OR_OFFSET 0x3FFFu
#define EXTENSIONS_MOST 8
#define TCP_BYTES_LEAST 20u
#define IPV4_BYTES_LEAST 20u

static int is_tag(uint32_t kind) { return kind == ETHERTYPE_VLAN || kind == 0x88A8u; }

// Whether `size` more bytes lie behind `at`, which is not behind the end.
static int has(uint32_t length, uint32_t at, uint32_t size) { return length - at >= size; }

static int find_transport(const uint8_t *frame, uint32_t length, struct ss_layers *at) {
  const uint8_t *header = frame + at->transport;
  if (at->protocol == IPPROTO_UDP) {
    if (!has(length, at->transport, SS_UDP_BYTES)) return 0;
    at->payload = at->transport + SS_UDP_BYTES;
    return 1;
  }
  if (at->protocol != IPPROTO_TCP || !has(length, at->transport, TCP_BYTES_LEAST)) return 0;
  uint32_t size = (header[12] >> 4) * 4u;
  if (size < TCP_BYTES_LEAST || !has(length, at->transport, size)) return 0;
  at->payload = at->transport + size;
  return 1;
}

static int find_ipv4(const uint8_t *frame, uint32_t length, struct ss_layers *at) {
  const uint8_t *header = frame + at->network;
  if (!has(length, at->network, IPV4_BYTES_LEAST) || header[0] >> 4 != 4) return 0;
  uint32_t size = (header[0] & 15u) * 4u;
  if (size < IPV4_BYTES_LEAST || !has(length, at->network, size)) return 0;
  if ((ss_get16(header + SS_IPV4_FRAGMENT) & MORE_FRAGMENTS_OR_OFFSET) != 0) return 0;
  at->version = 4;
  at->protocol = header[9];
  at->transport = at->network + size;
  return find_transport(frame, length, at);
}

static int find_ipv6(const uint8_t *frame, uint32_t length, struct ss_layers *at) {
  const uint8_t *header = frame + at->network;
  if (!has(length, at->network, SS_IPV6_BYTES) || header[0] >> 4 != 6) return 0;
  at->version = 6;
  at->protocol = header[6];
  at->transport = at->network + SS_IPV6_BYTES;
  for (int i = 0; i < EXTENSIONS_MOST; i++) {
    int extension = at->protocol == IPPROTO_HOPOPTS || at->protocol == IPPROTO_ROUTING ||
                    at->protocol == IPPROTO_DSTOPTS;
    if (!extension) return find_transport(frame, length, at);
    if (!has(length, at->transport, 2)) return 0;
    uint32_t size = (frame[at->transport + 1] + 1u) * 8u;
    if (!has(length, at->transport, size)) return 0;
    at->protocol = frame[at->transport];
    at->transport += size;
  }
  return 0;
}

int ss_find_layers(const uint8_t *frame, uint32_t length, struct ss_layers *at) {
  if (length < SS_ETHERNET_BYTES) return 0;
  at->network = SS_ETHERNET_BYTES;
  uint32_t kind = ss_get16(frame + SS_ETHERNET_BYTES - 2);
  for (uint32_t tags = 0; tags < SS_TAGS_MOST && is_tag(kind); tags++) {
    if (!has(length, at->network, SS_TAG_BYTES)) return 0;
    kind = ss_get16(frame + at->network + 2);
    at->network += SS_TAG_BYTES;
  }
  if (kind == ETHERTYPE_IP) return find_ipv4(frame, length, at);
  return kind == ETHERTYPE_IPV6 && find_ipv6(frame, length, at);
}

uint64_t ss_pseudo_sum(const uint8_t *frame, const struct ss_layers *at, uint32_t length) {
  const uint8_t *header = frame + at->network;
  uint64_t sum = (uint64_t)htons(at->protocol) + htons((uint16_t)length) + htons((uint16_t)(length >> 16));
  if (at->version == 4) return sum + ss_sum(header + SS_IPV4_ADDRESSES, 8);
  return sum + ss_sum(header + SS_IPV6_ADDRESSES, 32);
}
