// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0

#include "ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define BLOCK_BYTES (256u << 10)
#define TAG_BYTES 4u
#define ADDRESSES_BYTES 12u

// The kernel puts the network header at a multiple of 16 behind its own header and the sender's address, and the
// Ethernet header before that. So there is room for a tag in front of the frame, see restore_tag.
_Static_assert(TPACKET_ALIGN(TPACKET2_HDRLEN + 16) - ETH_HLEN - TAG_BYTES >= TPACKET2_HDRLEN, "room for a VLAN tag");

static uint32_t slot_bytes(uint32_t mtu) {
  uint32_t bytes = TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + mtu + 2 * TAG_BYTES;
  return (bytes + 63) & ~63u;  // whole cache lines
}

int ss_ring_open(struct ss_ring *ring, int fd, uint32_t mtu, size_t bytes) {
  int version = TPACKET_V2;
  if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0) return errno;
  uint32_t slot = slot_bytes(mtu), per_block = BLOCK_BYTES / slot;
  uint32_t blocks = (uint32_t)((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
  struct tpacket_req request = {BLOCK_BYTES, blocks, slot, per_block * blocks};
  if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0) return errno;
  size_t length = (size_t)BLOCK_BYTES * blocks;
  void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) return errno;
  *ring = (struct ss_ring){memory, length, memory, slot, per_block, 0};
  return 0;
}

void ss_ring_close(struct ss_ring *ring) {
  if (ring->memory != NULL) munmap(ring->memory, ring->bytes);
  ring->memory = NULL;
}

static uint8_t *restore_tag(const struct tpacket2_hdr *header, uint8_t *frame) {
  uint8_t *tagged = frame - TAG_BYTES;
  uint16_t kind = header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETHERTYPE_VLAN;
  uint16_t tag[2] = {htons(kind), htons(header->tp_vlan_tci)};
  memmove(tagged, frame, ADDRESSES_BYTES);
  memcpy(tagged + ADDRESSES_BYTES, tag, sizeof tag);
  return tagged;
}

enum ss_arrival ss_ring_frame(struct ss_ring *ring, uint8_t **frame, uint32_t *length) {
  if (!ss_ring_ready(ring)) return SS_NOTHING;
  const struct tpacket2_hdr *header = (const struct tpacket2_hdr *)ring->slot;
  const struct sockaddr_ll *from = (const struct sockaddr_ll *)(ring->slot + TPACKET_ALIGN(sizeof *header));
  if (from->sll_pkttype == PACKET_OUTGOING) return SS_OWN;
  if (header->tp_snaplen < header->tp_len) return SS_CUT;
  *frame = ring->slot + header->tp_mac;
  *length = header->tp_snaplen;
  // A frame too short for addresses has no tag.
  if (header->tp_status & TP_STATUS_VLAN_VALID && *length >= ADDRESSES_BYTES) {
    *frame = restore_tag(header, *frame);
    *length += TAG_BYTES;
  }
  return SS_FRAME;
}

void ss_ring_release(struct ss_ring *ring) {
  struct tpacket2_hdr *header = (struct tpacket2_hdr *)ring->slot;
  __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
  if (++ring->in_block < ring->block_slots) {
    ring->slot += ring->slot_bytes;
    return;
  }
  ring->in_block = 0;
  ring->slot += BLOCK_BYTES - (size_t)(ring->block_slots - 1) * ring->slot_bytes;
  if (ring->slot == ring->memory + ring->bytes) ring->slot = ring->memory;
}
