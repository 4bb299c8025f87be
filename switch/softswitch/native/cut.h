// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Finishes what the sender of a frame left for its network card: cuts a train into packets, computes checksums.
//
// A train is cut where it lies: the headers are copied in front of each packet's payload, over the packet before it.
#pragma once

#include "layers.h"

#include <linux/virtio_net.h>
#include <stdint.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5  // Linux 6.2
#endif

#define SS_CUT_HEADERS 256u   // most bytes of headers of a train
#define SS_CUT_PACKETS 1024u  // most packets of a train that is cut; no kernel makes longer ones

struct ss_cutter {
  uint8_t *frame;
  uint32_t length;
  uint32_t size;     // payload of a packet, of which the last may have less; 0: the frame is no train
  uint32_t packets;
  uint32_t next;     // number of the packet that comes next
  uint32_t sequence;  // TCP, of the first packet
  uint16_t id;        // IPv4, of the first packet
  uint8_t flags;      // TCP
  uint8_t unchecked;  // UDP without a checksum
  struct ss_layers at;
  uint8_t headers[SS_CUT_HEADERS];
};

// Returns the number of packets, 0 if the frame is not what `told` says. `told` and `frame` as the kernel gave them.
uint32_t ss_cut_begin(struct ss_cutter *cutter, uint8_t *frame, uint32_t length, const struct virtio_net_hdr *told);

// The next packet, NULL after the last; it is valid until the next call.
uint8_t *ss_cut_next(struct ss_cutter *cutter, uint32_t *length);

// Packets of a frame of which only the first `there` bytes are there: for the count of lost ones.
uint32_t ss_cut_count(const uint8_t *frame, uint32_t there, uint32_t length, const struct virtio_net_hdr *told);
