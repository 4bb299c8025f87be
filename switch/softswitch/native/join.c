// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0

#include "join.h"

#include "checksum.h"
#include "cut.h"

#define DONT_FRAGMENT 0x4000u
#define RIGHT 0xFFFFu  // a sum that contains its own checksum

// ---------------------------------------------------------------- a packet by itself

// What the packet of a train may be: TCP or UDP with a payload, without tags, extension headers or padding.
static int has_shape(const uint8_t *packet, uint32_t length, struct ss_layers *at) {
  if (!ss_find_layers(packet, length, at)) return 0;
  const uint8_t *network = packet + at->network, *transport = packet + at->transport;
  if (at->network != SS_ETHERNET_BYTES || at->payload > SS_TRAIN_HEADERS || at->payload == length) return 0;
  uint32_t told = at->version == 4 ? ss_get16(network + SS_IPV4_LENGTH)
                                   : SS_IPV6_BYTES + ss_get16(network + SS_IPV6_LENGTH);
  if (told != length - at->network) return 0;
  if (at->version == 6 && at->transport != at->network + SS_IPV6_BYTES) return 0;
  if (at->protocol == IPPROTO_UDP) return ss_get16(transport + SS_UDP_LENGTH) == length - at->transport;
  const uint8_t most = SS_TCP_ACK | SS_TCP_PSH | SS_TCP_FIN | SS_TCP_ECE;
  return (transport[SS_TCP_FLAGS] & ~most) == 0 && (transport[SS_TCP_FLAGS] & SS_TCP_ACK) != 0;
}

// A wrong checksum must stay wrong, so its packet is not joined.
static int is_right(const uint8_t *packet, uint32_t length, const struct ss_layers *at) {
  const uint8_t *network = packet + at->network, *transport = packet + at->transport;
  uint32_t size = length - at->transport;
  if (at->version == 4 && ss_fold(ss_sum(network, at->transport - at->network)) != RIGHT) return 0;
  if (at->protocol == IPPROTO_UDP && ss_get16(transport + SS_UDP_CHECK) == 0) return at->version == 4;
  return ss_fold(ss_pseudo_sum(packet, at, size) + ss_sum(transport, size)) == RIGHT;
}

static void copy_alike(uint8_t *alike, const uint8_t *packet, const struct ss_layers *at) {
  memcpy(alike, packet, at->payload);
  uint8_t *network = alike + at->network, *transport = alike + at->transport;
  if (at->version == 4) {
    ss_put16(network + SS_IPV4_LENGTH, 0);
    ss_put16(network + SS_IPV4_ID, 0);
    ss_put16(network + SS_IPV4_CHECK, 0);
  } else {
    ss_put16(network + SS_IPV6_LENGTH, 0);
  }
  if (at->protocol == IPPROTO_TCP) {
    ss_put32(transport + SS_TCP_SEQUENCE, 0);
    transport[SS_TCP_FLAGS] &= (uint8_t)~(SS_TCP_PSH | SS_TCP_FIN);
  } else {
    ss_put16(transport + SS_UDP_LENGTH, 0);
  }
  ss_put16(transport + ss_check_offset(at), 0);
}

static uint8_t tcp_flags(const uint8_t *packet, const struct ss_layers *at) {
  return at->protocol == IPPROTO_TCP ? packet[at->transport + SS_TCP_FLAGS] : 0;
}

static uint16_t id_of(const uint8_t *packet, const struct ss_layers *at) {
  return at->version == 4 ? ss_get16(packet + at->network + SS_IPV4_ID) : 0;
}

static uint32_t sequence_of(const uint8_t *packet, const struct ss_layers *at) {
  return at->protocol == IPPROTO_TCP ? ss_get32(packet + at->transport + SS_TCP_SEQUENCE) : 0;
}

// ---------------------------------------------------------------- trains

void ss_train_begin(struct ss_train *train, const uint8_t *packet, uint32_t length, uint32_t most_bytes,
                    uint32_t most_length) {
  train->first = packet;
  train->first_length = length;
  train->packets = 1;
  train->bytes = length;
  train->most_bytes = most_bytes < SS_TRAIN_BYTES ? most_bytes : SS_TRAIN_BYTES;
  train->most_length = most_length;
  train->state = length < train->most_bytes ? SS_NEW : SS_CLOSED;
}

// After a shorter packet, or one with PSH or FIN, which only a train's last packet may have, the train is closed.
static void append(struct ss_train *train, const uint8_t *packet, uint32_t payload) {
  train->flags = tcp_flags(packet, &train->at);
  train->sequence = sequence_of(packet, &train->at) + (train->at.protocol == IPPROTO_TCP ? payload : 0);
  train->id = (uint16_t)(id_of(packet, &train->at) + 1);
  train->state = payload < train->size || (train->flags & (SS_TCP_PSH | SS_TCP_FIN)) ? SS_CLOSED : SS_OPEN;
}

static void look_at_first(struct ss_train *train) {
  const uint8_t *first = train->first;
  uint32_t length = train->first_length;
  train->state = SS_CLOSED;
  if (length > train->most_length || !has_shape(first, length, &train->at) || !is_right(first, length, &train->at)) {
    return;
  }
  train->size = length - train->at.payload;
  copy_alike(train->alike, first, &train->at);
  append(train, first, train->size);
}

static int id_follows(const struct ss_train *train, const uint8_t *packet) {
  if (train->at.version == 6 || id_of(packet, &train->at) == train->id) return 1;
  return (ss_get16(packet + train->at.network + SS_IPV4_FRAGMENT) & DONT_FRAGMENT) != 0;
}

static int is_alike(const struct ss_layers *one, const struct ss_layers *other) {
  return one->version == other->version && one->protocol == other->protocol && one->transport == other->transport &&
         one->payload == other->payload;
}

static int follows(const struct ss_train *train, const uint8_t *packet, uint32_t length) {
  const struct ss_layers *at = &train->at;
  struct ss_layers here;
  uint8_t alike[SS_TRAIN_HEADERS];
  if (!has_shape(packet, length, &here) || !is_alike(&here, at)) return 0;
  copy_alike(alike, packet, &here);
  if (memcmp(alike, train->alike, at->payload) != 0 || !id_follows(train, packet)) return 0;
  return sequence_of(packet, at) == train->sequence && is_right(packet, length, at);
}

int ss_train_take(struct ss_train *train, const uint8_t *packet, uint32_t length) {
  if (length > train->first_length || train->packets == SS_TRAIN_PACKETS) return 0;
  if (train->state == SS_NEW) look_at_first(train);
  if (train->state != SS_OPEN || length < train->at.payload) return 0;
  uint32_t payload = length - train->at.payload;
  if (train->bytes + payload > train->most_bytes || !follows(train, packet, length)) return 0;
  append(train, packet, payload);
  train->packets++;
  train->bytes += payload;
  return 1;
}

void ss_train_head(const struct ss_train *train, uint8_t headers[SS_TRAIN_HEADERS], struct virtio_net_hdr *told) {
  const struct ss_layers *at = &train->at;
  uint8_t *network = headers + at->network, *transport = headers + at->transport;
  uint32_t size = train->bytes - at->transport;
  memcpy(headers, train->first, at->payload);
  if (at->version == 4) {
    ss_put16(network + SS_IPV4_LENGTH, train->bytes - at->network);
    ss_put_check(network + SS_IPV4_CHECK, 0);
    ss_put_check(network + SS_IPV4_CHECK, ss_checksum(ss_sum(network, at->transport - at->network)));
  } else {
    ss_put16(network + SS_IPV6_LENGTH, train->bytes - at->network - SS_IPV6_BYTES);
  }
  *told = (struct virtio_net_hdr){
      .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
      .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
      .hdr_len = (uint16_t)at->payload,
      .gso_size = (uint16_t)train->size,
      .csum_start = (uint16_t)at->transport,
      .csum_offset = (uint16_t)ss_check_offset(at),
  };
  if (at->protocol == IPPROTO_TCP) {
    told->gso_type = at->version == 4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6;
    transport[SS_TCP_FLAGS] |= train->flags & (SS_TCP_PSH | SS_TCP_FIN);
  } else {
    ss_put16(transport + SS_UDP_LENGTH, size);
  }
  // Without complement: the kernel, or the card, adds the payload.
  ss_put_check(transport + ss_check_offset(at), ss_fold(ss_pseudo_sum(headers, at, size)));
}
