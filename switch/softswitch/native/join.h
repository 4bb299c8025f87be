// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Joins packets that follow one another into a train, so that the kernel carries them as one frame.
//
// Packets follow one another if whoever cuts the train makes the same packets again. There are two exceptions, which no
// receiver can tell: IPv4 identifications of packets with DF count up, and a UDP checksum of 0 (none) becomes a right
// one.
#pragma once

#include "layers.h"

#include <linux/virtio_net.h>
#include <stdint.h>

#define SS_TRAIN_PACKETS 64u
#define SS_TRAIN_BYTES 65535u
#define SS_TRAIN_HEADERS 128u  // most bytes of headers

struct ss_train {
  const uint8_t *first;  // the first packet
  uint32_t first_length;
  uint32_t packets;
  uint32_t bytes;  // of the train: the headers once, and all payloads
  uint32_t most_bytes;
  uint32_t most_length;  // of a packet
  // Known from the second packet on:
  enum { SS_NEW, SS_OPEN, SS_CLOSED } state;
  struct ss_layers at;
  uint32_t size;       // payload of a packet
  uint32_t sequence;   // TCP, of the packet that would be next
  uint16_t id;         // IPv4, of the packet that would be next
  uint8_t flags;       // TCP, of the last packet
  uint8_t alike[SS_TRAIN_HEADERS];  // the headers without what may differ
};

// A train of one packet, which must stay in place. `most_bytes`: of the train; `most_length`: of a packet in it.
void ss_train_begin(struct ss_train *train, const uint8_t *packet, uint32_t length, uint32_t most_bytes,
                    uint32_t most_length);

// Appends a packet; 0 if it does not follow. Only the headers of the train's packets are looked at again.
int ss_train_take(struct ss_train *train, const uint8_t *packet, uint32_t length);

// Writes the headers of a train of two packets or more, and what the kernel is told of it.
void ss_train_head(const struct ss_train *train, uint8_t headers[SS_TRAIN_HEADERS], struct virtio_net_hdr *told);
