// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Tags of many packets: written before these are sent, checked where they were received.
#include "constants.h"

#include "tags.h"

// Where a receiving call puts messages, each a datagram or a train of them. Lengths (uint32_t) and bytes of each datagram
// (int32_t, 0 if the message is a single one) lie so many bytes apart.
struct tags_messages {
  uint8_t *memory;
  uint64_t message_bytes;
  const uint8_t *lengths;
  uint64_t length_bytes;
  const uint8_t *segments;
  uint64_t segment_bytes;
};

// Writes the tags of these rows, whose last bytes have room for them.
void tags_write(const struct tags_key *key, uint8_t *rows, uint64_t row_bytes, const int64_t *numbers, uint64_t count) {
  const uint64_t payload = row_bytes - SUMWIRE_BYTES - TAG_BYTES;
  for (uint64_t i = 0; i < count; i++) {
    uint8_t *row = rows + (uint64_t)numbers[i] * row_bytes;
    tags_store(row + row_bytes - TAG_BYTES, tags_of(key, row, row + SUMWIRE_BYTES, payload));
  }
}

static int is_right(const struct tags_key *key, const uint8_t *datagram, uint64_t size) {
  // A REFUSED has no tag.
  if (size == SUMWIRE_BYTES && (datagram[0] & 0xF) == KIND_REFUSED) return 1;
  if (size < SUMWIRE_BYTES + TAG_BYTES) return 0;
  const uint64_t payload = size - SUMWIRE_BYTES - TAG_BYTES;
  if (payload > SLOT_WORDS * WORD_BYTES || payload % WORD_BYTES) return 0;
  return tags_of(key, datagram, datagram + SUMWIRE_BYTES, payload) == tags_load(datagram + size - TAG_BYTES);
}

static uint32_t number_at(const uint8_t *octets) {
  uint32_t number;
  memcpy(&number, octets, sizeof number);
  return number;
}

// Checks the datagrams of so many messages. Those with a wrong tag lose their first byte, version and kind, so that
// nobody takes them for anything. Returns how many.
uint64_t tags_check(const struct tags_key *key, const struct tags_messages *in, uint64_t messages) {
  uint64_t wrong = 0;
  for (uint64_t message = 0; message < messages; message++) {
    uint8_t *datagram = in->memory + message * in->message_bytes;
    uint64_t left = number_at(in->lengths + message * in->length_bytes);
    const uint32_t segment = number_at(in->segments + message * in->segment_bytes);
    if (left > in->message_bytes) left = in->message_bytes;
    const uint64_t step = segment ? segment : left;
    for (; left; datagram += step) {
      const uint64_t size = left < step ? left : step;
      if (!is_right(key, datagram, size)) datagram[0] = 0, wrong++;
      left -= size;
    }
  }
  return wrong;
}
