// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Receives frames into memory shared with the kernel (TPACKET_V2: one slot per frame, visible at once).
//
// A slot has room for a frame of the interface's MTU. Longer ones, trains, come by the socket's receive queue: their
// slot says so, and when it is their turn.
#pragma once

#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdint.h>
#include <stddef.h>

// The longest frame that the queue passes: 64 KB, an Ethernet header and two VLAN tags.
#define SS_FRAME_BYTES (65535u + 22u)

struct ss_ring {
  uint8_t *memory;
  size_t bytes;
  uint8_t *slot;         // the next to be filled or read
  uint32_t slot_bytes;
  uint32_t block_slots;  // slots lie in blocks, with a gap after the last slot of a block
  uint32_t in_block;
  int fd;
  int unfinished;  // the kernel tells of trains and of checksums that are not computed yet
};

enum ss_arrival {
  SS_NOTHING,
  SS_FRAME,
  SS_OWN,   // sent by this machine; old kernels do not filter such frames
  SS_CUT,   // longer than a slot, or than SS_FRAME_BYTES
  SS_LOST,  // a train that the queue had no room for
};

struct ss_arrived {
  uint8_t *frame;
  uint32_t length;             // of the frame
  uint32_t there;              // bytes of it that can be read: of lost ones only some
  struct virtio_net_hdr told;  // what is left to do, zeros where the ring is not `unfinished`
};

// Gives a packet socket, not bound yet, a ring of about `bytes` bytes for frames of `mtu` + Ethernet header with two
// VLAN tags. With `unfinished` hosts may leave segmentation and checksums to do; some kernels refuse that. 0 or errno;
// after an error there is nothing to close.
int ss_ring_open(struct ss_ring *ring, int fd, uint32_t mtu, size_t bytes, int unfinished);
void ss_ring_close(struct ss_ring *ring);

static inline int ss_ring_ready(const struct ss_ring *ring) {
  const struct tpacket2_hdr *header = (const struct tpacket2_hdr *)ring->slot;
  return (__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) != 0;
}

// The oldest frame; it stays in its slot, or in `room`, until ss_ring_release(). A VLAN tag, which Linux passes apart
// from the frame, is put back. Call once per frame. `room`: SS_FRAME_BYTES.
enum ss_arrival ss_ring_frame(struct ss_ring *ring, uint8_t *room, struct ss_arrived *arrived);
void ss_ring_release(struct ss_ring *ring);
