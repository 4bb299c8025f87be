// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0

#include "ring.h"

#include "layers.h"

#include <errno.h>
#include <net/ethernet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define BLOCK_BYTES (256u << 10)
#define ADDRESSES_BYTES 12u
#define QUEUE_TRIES 4

// The kernel puts the network header at a multiple of 16 behind its own header and the sender's address, and the
// Ethernet header before that. So there is room for a tag in front of the frame, see restore_tag. With what is told of
// an unfinished frame, which lies in front of it too, everything lies further back.
_Static_assert(TPACKET_ALIGN(TPACKET2_HDRLEN + 16) - ETH_HLEN - SS_TAG_BYTES >= TPACKET2_HDRLEN, "room for a VLAN tag");

static uint32_t slot_bytes(uint32_t mtu) {
  uint32_t bytes = TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + sizeof(struct virtio_net_hdr) + mtu + 2 * SS_TAG_BYTES;
  return (bytes + 63) & ~63u;  // whole cache lines
}

static int set(int fd, int option, int value) {
  return setsockopt(fd, SOL_PACKET, option, &value, sizeof value) == 0 ? 0 : errno;
}

int ss_ring_open(struct ss_ring *ring, int fd, uint32_t mtu, size_t bytes, int unfinished) {
  int error = set(fd, PACKET_VERSION, TPACKET_V2);
  if (error == 0 && unfinished) error = set(fd, PACKET_VNET_HDR, 1);
  if (error == 0 && unfinished) error = set(fd, PACKET_COPY_THRESH, 1);
  if (error != 0) return error;
  uint32_t slot = slot_bytes(mtu), per_block = BLOCK_BYTES / slot;
  uint32_t blocks = (uint32_t)((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
  struct tpacket_req request = {BLOCK_BYTES, blocks, slot, per_block * blocks};
  if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0) return errno;
  size_t length = (size_t)BLOCK_BYTES * blocks;
  void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) return errno;
  *ring = (struct ss_ring){memory, length, memory, slot, per_block, 0, fd, unfinished};
  return 0;
}

void ss_ring_close(struct ss_ring *ring) {
  if (ring->memory != NULL) munmap(ring->memory, ring->bytes);
  ring->memory = NULL;
}

// `room`, SS_TAG_BYTES before the frame: what the longest frame with its tag needs.
static void restore_tag(const struct tpacket2_hdr *header, struct ss_arrived *arrived) {
  uint8_t *tagged = arrived->frame - SS_TAG_BYTES;
  uint16_t kind = header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETHERTYPE_VLAN;
  memmove(tagged, arrived->frame, ADDRESSES_BYTES);
  ss_put16(tagged + ADDRESSES_BYTES, kind);
  ss_put16(tagged + ADDRESSES_BYTES + 2, header->tp_vlan_tci);
  arrived->frame = tagged;
  arrived->length += SS_TAG_BYTES;
  arrived->told.csum_start += SS_TAG_BYTES;
}

// The oldest frame of the queue into `room`. An interface that went down reports that once; the frame is still there.
static enum ss_arrival read_queue(const struct ss_ring *ring, uint8_t *room, struct ss_arrived *arrived) {
  arrived->frame = room + SS_TAG_BYTES;
  struct iovec pieces[2] = {{&arrived->told, sizeof arrived->told}, {arrived->frame, SS_FRAME_BYTES - SS_TAG_BYTES}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  ssize_t size = -1;
  for (int tries = 0; tries < QUEUE_TRIES && size < 0; tries++) {
    size = recvmsg(ring->fd, &message, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) break;
  }
  arrived->there = 0;
  if (size < (ssize_t)sizeof arrived->told) return SS_LOST;
  if (message.msg_flags & MSG_TRUNC) return SS_CUT;
  arrived->length = (uint32_t)size - (uint32_t)sizeof arrived->told;
  return SS_FRAME;
}

static enum ss_arrival read_slot(const struct ss_ring *ring, uint8_t *room, struct ss_arrived *arrived) {
  const struct tpacket2_hdr *header = (const struct tpacket2_hdr *)ring->slot;
  arrived->frame = ring->slot + header->tp_mac;
  arrived->length = header->tp_len;
  arrived->there = header->tp_snaplen;
  if (ring->unfinished) memcpy(&arrived->told, arrived->frame - sizeof arrived->told, sizeof arrived->told);
  else arrived->told = (struct virtio_net_hdr){0};
  if (header->tp_status & TP_STATUS_COPY) return read_queue(ring, room, arrived);
  if (header->tp_snaplen == header->tp_len) return SS_FRAME;
  return ring->unfinished ? SS_LOST : SS_CUT;
}

enum ss_arrival ss_ring_frame(struct ss_ring *ring, uint8_t *room, struct ss_arrived *arrived) {
  if (!ss_ring_ready(ring)) return SS_NOTHING;
  const struct tpacket2_hdr *header = (const struct tpacket2_hdr *)ring->slot;
  const struct sockaddr_ll *from = (const struct sockaddr_ll *)(ring->slot + TPACKET_ALIGN(sizeof *header));
  enum ss_arrival arrival = read_slot(ring, room, arrived);
  if (from->sll_pkttype == PACKET_OUTGOING) return SS_OWN;
  // A frame too short for addresses has no tag.
  if (arrival == SS_FRAME && header->tp_status & TP_STATUS_VLAN_VALID && arrived->length >= ADDRESSES_BYTES) {
    restore_tag(header, arrived);
  }
  return arrival;
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
