// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Receives frames into memory shared with the kernel (TPACKET_V2: one slot per frame, visible at once).
#pragma once

#include <linux/if_packet.h>
#include <stdint.h>
#include <stddef.h>

struct ss_ring {
  uint8_t *memory;
  size_t bytes;
  uint8_t *slot;         // the next to be filled or read
  uint32_t slot_bytes;
  uint32_t block_slots;  // slots lie in blocks, with a gap after the last slot of a block
  uint32_t in_block;
};

enum ss_arrival {
  SS_NOTHING,
  SS_FRAME,
  SS_OWN,  // sent by this machine; old kernels do not filter such frames
  SS_CUT,  // longer than a slot
};

// Gives a packet socket, not bound yet, a ring of about `bytes` bytes for frames of `mtu` + Ethernet header with two
// VLAN tags. 0 or errno; after an error there is nothing to close.
int ss_ring_open(struct ss_ring *ring, int fd, uint32_t mtu, size_t bytes);
void ss_ring_close(struct ss_ring *ring);

static inline int ss_ring_ready(const struct ss_ring *ring) {
  const struct tpacket2_hdr *header = (const struct tpacket2_hdr *)ring->slot;
  return (__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) != 0;
}

// The oldest frame; it stays in its slot until ss_ring_release(). A VLAN tag, which Linux passes apart from the frame,
// is put back. Call once per frame.
enum ss_arrival ss_ring_frame(struct ss_ring *ring, uint8_t **frame, uint32_t *length);
void ss_ring_release(struct ss_ring *ring);
