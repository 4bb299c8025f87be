// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Results as nearly all of them come: plain ones of consecutive chunks in flight, in messages that are one datagram or
// a train of them. They go from where the kernel has put them straight to their places.
#include "runs.h"

#include <string.h>

static uint32_t number_at(const uint8_t *octets) {
  uint32_t number;
  memcpy(&number, octets, sizeof number);
  return number;
}

static uint32_t big_endian(const uint8_t *octets) {
  return (uint32_t)octets[0] << 24 | (uint32_t)octets[1] << 16 | (uint32_t)octets[2] << 8 | octets[3];
}

// The datagrams of a message, 0 if they are not all of this size.
static uint64_t datagrams_of(const struct runs_messages *in, uint64_t message, uint64_t size) {
  const uint32_t length = number_at(in->lengths + message * in->length_bytes);
  const uint32_t segment = number_at(in->segments + message * in->segment_bytes);
  if (segment != size && (segment || length != size)) return 0;
  return length % size ? 0 : length / size;
}

static int is_result(const struct runs_exchange *exchange, const uint8_t *datagram, uint64_t chunk) {
  uint64_t head[HEAD_NUMBERS], other = 0;
  memcpy(head, datagram, sizeof head);
  const uint64_t *expected = exchange->expected + chunk * HEAD_NUMBERS;
  for (int i = 0; i < HEAD_NUMBERS; i++) other |= (head[i] & exchange->mask[i]) ^ expected[i];
  return !other && datagram[COUNT_AT] && exchange->flying[chunk];
}

// The number of datagrams in the messages, if they are a run; else 0.
static uint64_t check(const struct runs_messages *in, uint64_t messages, struct runs_exchange *exchange) {
  const uint64_t size = HEADER_BYTES + exchange->payload_bytes + exchange->tag_bytes;
  uint64_t count = 0;
  exchange->longest = 0;
  for (uint64_t message = 0; message < messages; message++) {
    const uint64_t datagrams = datagrams_of(in, message, size);
    const uint8_t *datagram = in->memory + message * in->message_bytes;
    if (!datagrams) return 0;
    if (!count) exchange->first = big_endian(datagram + CHUNK_AT) & CHUNK_MASK;
    if (exchange->first + count + datagrams > exchange->chunks) return 0;
    for (uint64_t i = 0; i < datagrams; i++, count++, datagram += size)
      if (!is_result(exchange, datagram, exchange->first + count)) return 0;
    if (datagrams > exchange->longest) exchange->longest = datagrams;
  }
  return count;
}

uint64_t runs_take(const struct runs_messages *in, uint64_t messages, struct runs_exchange *exchange) {
  const uint64_t count = check(in, messages, exchange), bytes = exchange->payload_bytes;
  uint64_t chunk = exchange->first;
  for (uint64_t message = 0; count && message < messages; message++) {
    const uint8_t *datagram = in->memory + message * in->message_bytes;
    const uint8_t *end = datagram + number_at(in->lengths + message * in->length_bytes);
    for (; datagram < end; datagram += HEADER_BYTES + bytes + exchange->tag_bytes, chunk++) {
      const uint32_t contributors = big_endian(datagram + CONTRIBUTORS_AT);
      memcpy(exchange->words + chunk * bytes, datagram + HEADER_BYTES, bytes);
      memcpy(exchange->contributors + chunk * sizeof contributors, &contributors, sizeof contributors);
      exchange->counts[chunk] = datagram[COUNT_AT];
    }
  }
  return count;
}
