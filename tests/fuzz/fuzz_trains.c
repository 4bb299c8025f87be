// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Cuts and joins mutated trains, to be built with sanitizers: fuzz_trains TRAINS SEED
//
// Every train and every packet lies in a memory block of exactly its size, so that a read or write outside is found.
// What can be known of the results is checked: a train that was not mutated becomes the packets that it is made of, and
// what was joined, cut again, becomes the same packets.
#include "checksum.h"
#include "cut.h"
#include "engine.h"
#include "join.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST_BYTES 9000u     // of a usual train; a few are as long as a frame can be
#define LONGEST_BYTES 66000u
#define POOL_PACKETS 2048u
#define SLOW_CHECK_EVERY 16u  // trains
#define DONT_FRAGMENT 0x40u

void __sanitizer_set_death_callback(void (*callback)(void));

static uint64_t seed_state;

static uint32_t below(uint32_t end) { return (uint32_t)((ss_random(&seed_state) >> 32) * end >> 32); }

struct block {
  uint8_t *data;
  uint32_t length;
};

static struct {
  uint64_t trains, packets, joined, refused;
  struct virtio_net_hdr told;
  uint8_t frame[LONGEST_BYTES];  // as it was before it was cut
  uint32_t length;
  struct block pool[POOL_PACKETS];  // packets that wait to be joined
  uint32_t waiting;
} run;

static uint8_t pattern[LONGEST_BYTES + 256];

static void tell_train(void) {
  const struct virtio_net_hdr *told = &run.told;
  fprintf(stderr, "fuzz: train %" PRIu64 ", %u bytes, flags %u, type %u, size %u, checksum %u + %u: ", run.trains,
          run.length, told->flags, told->gso_type, told->gso_size, told->csum_start, told->csum_offset);
  for (uint32_t i = 0; i < run.length && i < 160; i++) fprintf(stderr, "%02x", run.frame[i]);
  fprintf(stderr, "\n");
}

static void fail(const char *why, uint64_t value) {
  fprintf(stderr, "fuzz: %s: %" PRIu64 "\n", why, value);
  tell_train();
  exit(1);
}

// A block of exactly `length` bytes.
static struct block block_of(const uint8_t *data, uint32_t length) {
  struct block made = {malloc(length ? length : 1), length};
  if (made.data == NULL) fail("no memory for bytes", length);
  if (length != 0) memcpy(made.data, data, length);
  return made;
}

// ---------------------------------------------------------------- trains

static uint32_t put_ethernet(uint8_t *frame, int version, uint32_t tags) {
  static const uint8_t addresses[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
  memcpy(frame, addresses, sizeof addresses);
  uint32_t at = sizeof addresses;
  for (; tags > 0; tags--, at += 4) {
    ss_put16(frame + at, below(2) ? 0x8100 : 0x88A8);
    ss_put16(frame + at + 2, below(4096));
  }
  ss_put16(frame + at, version == 4 ? 0x0800 : 0x86DD);
  return at + 2;
}

static uint32_t put_ipv4(uint8_t *header, int protocol) {
  uint32_t size = 20 + (below(4) ? 0 : 4 * below(11));
  memset(header, 1, size);
  header[0] = (uint8_t)(0x40u + size / 4);
  header[1] = 0x28;
  ss_put16(header + SS_IPV4_ID, below(3) ? below(65536) : 0xFFF8u + below(8));
  header[6] = below(2) ? DONT_FRAGMENT : 0;
  header[7] = 0;
  header[8] = 64;
  header[9] = (uint8_t)protocol;
  return size;
}

static uint32_t put_ipv6(uint8_t *header, int protocol) {
  uint32_t size = SS_IPV6_BYTES;
  uint8_t *kind = header + 6;
  memset(header, 1, size);
  header[0] = 0x60;
  for (uint32_t more = below(4) ? 0 : below(3); more > 0; more--, size += 8) {
    memset(header + size, 0, 8);
    *kind = below(2) ? IPPROTO_HOPOPTS : IPPROTO_DSTOPTS;
    kind = header + size;
  }
  *kind = (uint8_t)protocol;
  return size;
}

static uint32_t put_tcp(uint8_t *header) {
  uint32_t size = 20 + 4 * below(11);
  memset(header, 1, size);
  ss_put32(header + SS_TCP_SEQUENCE, below(4) ? below(UINT32_MAX) : UINT32_MAX - below(5000));
  header[12] = (uint8_t)(size / 4 << 4);
  header[SS_TCP_FLAGS] = below(8) ? SS_TCP_ACK : (uint8_t)below(256);
  return size;
}

// The lengths, and the checksum of the pseudo header, as a sender leaves them.
static void complete(uint8_t *frame, uint32_t length, const struct ss_layers *at) {
  uint8_t *network = frame + at->network, *transport = frame + at->transport;
  uint32_t size = length - at->transport;
  if (at->version == 4) {
    ss_put16(network + SS_IPV4_LENGTH, length - at->network);
    ss_put16(network + SS_IPV4_CHECK, 0);
    ss_put_check(network + SS_IPV4_CHECK, ss_checksum(ss_sum(network, at->transport - at->network)));
  } else {
    ss_put16(network + SS_IPV6_LENGTH, length - at->network - SS_IPV6_BYTES);
  }
  if (at->protocol == IPPROTO_UDP) ss_put16(transport + SS_UDP_LENGTH, size);
  ss_put_check(transport + ss_check_offset(at), ss_fold(ss_pseudo_sum(frame, at, size)));
}

// Writes run.frame, run.length and run.told.
static void make_train(void) {
  uint8_t *frame = run.frame;
  int version = below(3) ? 4 : 6, protocol = below(2) ? IPPROTO_UDP : IPPROTO_TCP;
  uint32_t network = put_ethernet(frame, version, below(6) ? 0 : 1 + below(2));
  uint32_t transport = network + (version == 4 ? put_ipv4(frame + network, protocol) : put_ipv6(frame + network, protocol));
  uint32_t payload = transport + 8;
  memset(frame + transport, 7, 8);
  if (protocol == IPPROTO_TCP) payload = transport + put_tcp(frame + transport);
  uint32_t room = below(512) ? MOST_BYTES : 65000u;
  uint32_t packets = 1 + below(below(8) ? 24 : 200), size = 1 + below(room / packets);
  uint32_t last = below(2) ? size : 1 + below(size);
  uint32_t bytes = size * (packets - 1) + last;
  memcpy(frame + payload, pattern + below(256), bytes);
  run.length = payload + bytes;
  struct ss_layers at = {network, transport, payload, (uint8_t)version, (uint8_t)protocol};
  complete(frame, run.length, &at);
  uint8_t type = protocol == IPPROTO_UDP ? VIRTIO_NET_HDR_GSO_UDP_L4
                                         : version == 4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6;
  run.told = (struct virtio_net_hdr){VIRTIO_NET_HDR_F_NEEDS_CSUM, type, (uint16_t)payload, (uint16_t)size,
                                     (uint16_t)transport, (uint16_t)ss_check_offset(&at)};
}

// ---------------------------------------------------------------- mutations

static void mutate_told(void) {
  struct virtio_net_hdr *told = &run.told;
  static const uint16_t sizes[] = {0, 1, 2, 7, 41, 1448, 9000, 0x7FFF, 0xFFFF};
  switch (below(7)) {
    case 0: told->gso_size = sizes[below(sizeof sizes / sizeof sizes[0])]; break;
    case 1: told->gso_size = (uint16_t)(run.length - below(80)); break;
    case 2: told->gso_type = (uint8_t)(below(2) ? below(8) : below(256)); break;
    case 3: told->csum_start = (uint16_t)(below(2) ? below(120) : below(65536)); break;
    case 4: told->csum_offset = (uint16_t)(below(2) ? below(32) : below(65536)); break;
    case 5: told->flags = (uint8_t)below(4); break;
    default: told->hdr_len = (uint16_t)below(65536); break;
  }
}

static void mutate_frame(void) {
  static const uint8_t extremes[] = {0, 1, 0x7F, 0x80, 0xFF, 0x45, 0x4F, 0x40, 0x60, 0x50, 0xF0};
  uint32_t headers = run.length < 200 ? run.length : 200;
  if (headers == 0) return;
  switch (below(4)) {
    case 0: run.length = below(2) ? below(run.length + 1) : below(headers + 1); break;
    case 1: run.frame[below(headers)] ^= (uint8_t)(1u << below(8)); break;
    case 2: run.frame[below(headers)] = extremes[below(sizeof extremes)]; break;
    default: run.frame[below(headers)] = (uint8_t)below(256); break;
  }
}

// ---------------------------------------------------------------- cutting

// The checksum of what follows the IP header, the slow way.
static uint32_t plain_sum(const uint8_t *data, uint32_t length, uint32_t sum) {
  for (uint32_t i = 0; i < length; i++) sum += i % 2 ? data[i] : (uint32_t)data[i] << 8;
  while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}

static int has_right_checksum(const struct ss_layers *at, const uint8_t *packet, uint32_t length) {
  uint32_t size = length - at->transport;
  uint32_t addresses = at->version == 4 ? SS_IPV4_ADDRESSES : SS_IPV6_ADDRESSES;
  uint32_t sum = plain_sum(packet + at->network + addresses, at->version == 4 ? 8 : 32, at->protocol + size);
  return plain_sum(packet + at->transport, size, sum) == 0xFFFF;
}

static void keep(const uint8_t *packet, uint32_t length) {
  if (run.waiting == POOL_PACKETS) return;
  run.pool[run.waiting++] = block_of(packet, length);
}

// A packet of a train that nobody changed.
static void check_packet(const struct ss_cutter *cutter, uint32_t number, const uint8_t *packet, uint32_t length) {
  const struct ss_layers *at = &cutter->at;
  uint32_t payload = length - at->payload;
  if (payload != cutter->size && number + 1 != cutter->packets) fail("a packet in between is shorter", payload);
  if (memcmp(packet + at->payload, run.frame + at->payload + number * cutter->size, payload) != 0) {
    fail("the payload of a packet changed", number);
  }
  if (run.trains % SLOW_CHECK_EVERY != 0) return;
  if (!has_right_checksum(at, packet, length)) fail("the checksum of a packet is wrong", number);
  if (at->version == 4 && plain_sum(packet + at->network, at->transport - at->network, 0) != 0xFFFF) {
    fail("the IPv4 checksum of a packet is wrong", number);
  }
}

static void cut(int changed) {
  struct block train = block_of(run.frame, run.length);
  struct ss_cutter cutter;
  uint32_t told = ss_cut_count(train.data, train.length, train.length, &run.told), bytes = 0, length = 0;
  uint32_t count = ss_cut_begin(&cutter, train.data, train.length, &run.told);
  if (!changed && told != count) fail("counted as many packets", told);
  if (count == 0) run.refused++;
  if (count == 0 && !changed) fail("a train that is right was refused", run.length);
  for (uint32_t number = 0; number < count; number++) {
    const uint8_t *packet = ss_cut_next(&cutter, &length);
    if (packet < train.data || packet + length > train.data + train.length) fail("a packet outside its train", number);
    if (!changed) check_packet(&cutter, number, packet, length);
    if (!changed) bytes += length - cutter.at.payload;
    keep(packet, length);
  }
  if (count != 0 && ss_cut_next(&cutter, &length) != NULL) fail("more packets than told", count);
  if (!changed && bytes != run.length - cutter.at.payload) fail("bytes of a train are missing", bytes);
  run.packets += count;
  free(train.data);
}

// ---------------------------------------------------------------- joining

// Other flows and wrong packets between those of a train.
static void disturb(void) {
  for (uint32_t left = below(2) ? 0 : below(6); left > 0 && run.waiting > 1; left--) {
    uint32_t one = below(run.waiting), other = below(run.waiting);
    struct block first = run.pool[one];
    run.pool[one] = run.pool[other];
    run.pool[other] = first;
    if (below(2) && first.length != 0) first.data[below(first.length < 90 ? first.length : 90)] ^= (uint8_t)(1u << below(8));
  }
}

// Equal, but for what a train does not keep.
static int is_same(const struct ss_layers *at, const struct block *packet, uint8_t *again, uint32_t length) {
  if (packet->length != length) return 0;
  if (at->version == 4 && again[at->network + SS_IPV4_FRAGMENT] & DONT_FRAGMENT) {
    memcpy(again + at->network + SS_IPV4_ID, packet->data + at->network + SS_IPV4_ID, 2);
    memcpy(again + at->network + SS_IPV4_CHECK, packet->data + at->network + SS_IPV4_CHECK, 2);
  }
  uint32_t check = at->transport + ss_check_offset(at);
  int none = at->protocol == IPPROTO_UDP && packet->data[check] == 0 && packet->data[check + 1] == 0;
  int zero = ss_get16(packet->data + check) % 0xFFFF == 0 && ss_get16(again + check) % 0xFFFF == 0;
  if (none || zero) memcpy(again + check, packet->data + check, 2);
  return memcmp(packet->data, again, length) == 0;
}

static void cut_again(const struct ss_train *train, const struct block *packets) {
  struct virtio_net_hdr told;
  uint8_t headers[SS_TRAIN_HEADERS];
  uint32_t size = train->at.payload, length;
  ss_train_head(train, headers, &told);
  if (train->bytes > train->most_bytes || train->packets > SS_TRAIN_PACKETS) fail("a train is too long", train->bytes);
  struct block whole = {malloc(train->bytes), train->bytes};
  memcpy(whole.data, headers, size);
  for (uint32_t i = 0, at = size; i < train->packets; at += packets[i++].length - train->at.payload) {
    memcpy(whole.data + at, packets[i].data + size, packets[i].length - size);
  }
  struct ss_cutter cutter;
  if (ss_cut_begin(&cutter, whole.data, whole.length, &told) != train->packets) fail("not as many packets again", train->packets);
  for (uint32_t i = 0; i < train->packets; i++) {
    uint8_t *again = ss_cut_next(&cutter, &length);
    if (!is_same(&train->at, &packets[i], again, length)) fail("not the same packet again", i);
  }
  free(whole.data);
  run.joined += train->packets;
}

static void join(void) {
  uint32_t most_bytes = below(4) ? SS_TRAIN_BYTES : below(9000), most_length = below(4) ? 66000 : below(3000);
  for (uint32_t at = 0; at < run.waiting;) {
    struct ss_train train;
    const struct block *packets = run.pool + at;
    ss_train_begin(&train, packets[0].data, packets[0].length, most_bytes, most_length);
    for (uint32_t i = 1; at + i < run.waiting && ss_train_take(&train, packets[i].data, packets[i].length);) i++;
    if (train.packets > 1) cut_again(&train, packets);
    at += train.packets;
  }
  for (uint32_t i = 0; i < run.waiting; i++) free(run.pool[i].data);
  run.waiting = 0;
}

// ---------------------------------------------------------------- running

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void step(void) {
  make_train();
  int changes = below(2) ? 0 : 1 + (int)below(3);
  for (int left = changes; left > 0; left--) below(2) ? mutate_told() : mutate_frame();
  cut(changes != 0);
  if (below(4) != 0) return;
  disturb();
  join();
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: fuzz_trains TRAINS SEED\n");
    return 2;
  }
  uint64_t trains = strtoull(argv[1], NULL, 10);
  seed_state = strtoull(argv[2], NULL, 10);
  __sanitizer_set_death_callback(tell_train);
  for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (uint8_t)ss_random(&seed_state);
  double start = seconds(), told = start;
  for (run.trains = 0; run.trains < trains; run.trains++) {
    step();
    if ((run.trains & 0xFFF) == 0 && seconds() - told > 10) {
      told = seconds();
      fprintf(stderr, "fuzz: %" PRIu64 " trains, %.0f/s\n", run.trains, (double)run.trains / (told - start));
    }
  }
  printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.3f\n", run.trains, run.packets, run.joined, run.refused,
         seconds() - start);
  return 0;
}
