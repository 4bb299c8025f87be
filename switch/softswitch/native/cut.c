// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0

#include "cut.h"

#include "checksum.h"

#define IP_LENGTH_MOST 65535u

static uint32_t divide_up(uint32_t bytes, uint32_t size) { return (bytes + size - 1) / size; }

// ---------------------------------------------------------------- what the kernel told

// Computes the checksum of a frame that is no train; 0: it is not in the frame.
static int finish_checksum(uint8_t *frame, uint32_t length, const struct virtio_net_hdr *told) {
  uint32_t start = told->csum_start, check = start + told->csum_offset;
  if (check + 2u > length) return 0;
  // The field holds the sum of the pseudo header.
  ss_put_check(frame + check, ss_checksum_not_0(ss_sum(frame + start, length - start)));
  return 1;
}

static int kind_fits(const struct ss_layers *at, const struct virtio_net_hdr *told) {
  switch (told->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
    case VIRTIO_NET_HDR_GSO_TCPV4: return at->version == 4 && at->protocol == IPPROTO_TCP;
    case VIRTIO_NET_HDR_GSO_TCPV6: return at->version == 6 && at->protocol == IPPROTO_TCP;
    case VIRTIO_NET_HDR_GSO_UDP_L4: return at->protocol == IPPROTO_UDP;
    default: return 0;
  }
}

// Another checksum than that of the outermost TCP or UDP header belongs to a tunnel.
static int checksum_fits(const struct ss_layers *at, const struct virtio_net_hdr *told) {
  if ((told->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) == 0) return 1;
  return told->csum_start == at->transport && told->csum_offset == ss_check_offset(at);
}

static uint32_t begin_train(struct ss_cutter *cutter, const struct virtio_net_hdr *told) {
  const uint8_t *frame = cutter->frame;
  struct ss_layers *at = &cutter->at;
  if (!ss_find_layers(frame, cutter->length, at) || !kind_fits(at, told) || !checksum_fits(at, told)) return 0;
  uint32_t payload = cutter->length - at->payload, size = told->gso_size;
  if (at->payload > SS_CUT_HEADERS || size == 0) return 0;
  uint32_t packets = payload == 0 ? 1 : divide_up(payload, size);
  uint32_t longest = at->payload - at->network + (payload < size ? payload : size);
  if (packets > SS_CUT_PACKETS || longest > IP_LENGTH_MOST) return 0;
  const uint8_t *transport = frame + at->transport;
  int tcp = at->protocol == IPPROTO_TCP;
  cutter->size = size;
  cutter->id = at->version == 4 ? ss_get16(frame + at->network + SS_IPV4_ID) : 0;
  cutter->sequence = tcp ? ss_get32(transport + SS_TCP_SEQUENCE) : 0;
  cutter->flags = tcp ? transport[SS_TCP_FLAGS] : 0;
  cutter->unchecked =
      !tcp && (told->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) == 0 && ss_get16(transport + SS_UDP_CHECK) == 0;
  memcpy(cutter->headers, frame, at->payload);
  return packets;
}

uint32_t ss_cut_begin(struct ss_cutter *cutter, uint8_t *frame, uint32_t length, const struct virtio_net_hdr *told) {
  cutter->frame = frame;
  cutter->length = length;
  cutter->size = 0;
  cutter->next = 0;
  cutter->packets = 1;
  if (told->gso_type != VIRTIO_NET_HDR_GSO_NONE) cutter->packets = begin_train(cutter, told);
  else if (told->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) cutter->packets = (uint32_t)finish_checksum(frame, length, told);
  return cutter->packets;
}

uint32_t ss_cut_count(const uint8_t *frame, uint32_t there, uint32_t length, const struct virtio_net_hdr *told) {
  struct ss_layers at;
  if (told->gso_type == VIRTIO_NET_HDR_GSO_NONE || told->gso_size == 0 || !ss_find_layers(frame, there, &at)) return 1;
  return length <= at.payload ? 1 : divide_up(length - at.payload, told->gso_size);
}

// ---------------------------------------------------------------- packets

static void correct_network(const struct ss_cutter *cutter, uint8_t *packet, uint32_t number, uint32_t length) {
  const struct ss_layers *at = &cutter->at;
  uint8_t *header = packet + at->network;
  if (at->version == 6) {
    ss_put16(header + SS_IPV6_LENGTH, length - at->network - SS_IPV6_BYTES);
    return;
  }
  ss_put16(header + SS_IPV4_LENGTH, length - at->network);
  ss_put16(header + SS_IPV4_ID, cutter->id + number);
  ss_put_check(header + SS_IPV4_CHECK, 0);
  ss_put_check(header + SS_IPV4_CHECK, ss_checksum(ss_sum(header, at->transport - at->network)));
}

static void correct_transport(const struct ss_cutter *cutter, uint8_t *packet, uint32_t number, uint32_t length) {
  const struct ss_layers *at = &cutter->at;
  uint8_t *header = packet + at->transport, *check = header + ss_check_offset(at);
  uint32_t size = length - at->transport;
  if (at->protocol == IPPROTO_TCP) {
    uint32_t dropped = number == 0 ? 0 : SS_TCP_CWR;
    if (number + 1 < cutter->packets) dropped |= SS_TCP_FIN | SS_TCP_PSH;
    ss_put32(header + SS_TCP_SEQUENCE, cutter->sequence + number * cutter->size);
    header[SS_TCP_FLAGS] = (uint8_t)(cutter->flags & ~dropped);
  } else {
    ss_put16(header + SS_UDP_LENGTH, size);
    if (cutter->unchecked) return;
  }
  ss_put_check(check, 0);
  ss_put_check(check, ss_checksum_not_0(ss_pseudo_sum(packet, at, size) + ss_sum(header, size)));
}

uint8_t *ss_cut_next(struct ss_cutter *cutter, uint32_t *length) {
  uint32_t number = cutter->next;
  if (number == cutter->packets) return NULL;
  cutter->next++;
  *length = cutter->length;
  if (cutter->size == 0) return cutter->frame;
  uint32_t begin = number * cutter->size, left = cutter->length - cutter->at.payload - begin;
  uint8_t *packet = cutter->frame + begin;
  *length = cutter->at.payload + (left < cutter->size ? left : cutter->size);
  if (number != 0) memcpy(packet, cutter->headers, cutter->at.payload);
  correct_network(cutter, packet, number, *length);
  correct_transport(cutter, packet, number, *length);
  return packet;
}
