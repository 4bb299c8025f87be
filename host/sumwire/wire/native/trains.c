// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Rows of memory, cut into trains.
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

// The rows that are loaded, and a sending call's messages. `tos` has a byte of each row, or is null. `vectors` and
// values of control messages (int32_t, so many bytes apart) belong to the messages. After a cut: the rows in them.
struct trains_out {
  uint64_t base;
  uint64_t row_bytes;
  uint64_t phase;
  const uint8_t *tos;
  struct iovec *vectors;
  uint8_t *controls;
  uint64_t control_bytes;
  uint64_t room;
  uint64_t rows;
};

static int begins_train(const struct trains_out *out, const int64_t *row, uint64_t longest) {
  if (longest == 1 || row[0] != row[-1] + 1 || !(((uint64_t)row[0] + out->phase) & (longest - 1))) return 1;
  return out->tos && out->tos[row[0]] != out->tos[row[-1]];
}

// Lays trains of at most `longest` rows, a power of two, into the messages, as far as these suffice. Returns how many.
uint64_t trains_cut(struct trains_out *out, const int64_t *rows, uint64_t count, uint64_t longest) {
  uint64_t messages = 0, i = 0;
  for (; i < count; i++) {
    if (i && !begins_train(out, rows + i, longest)) {
      out->vectors[messages - 1].iov_len += out->row_bytes;
      continue;
    }
    if (messages == out->room) break;
    out->vectors[messages].iov_base = (void *)(uintptr_t)(out->base + (uint64_t)rows[i] * out->row_bytes);
    out->vectors[messages].iov_len = out->row_bytes;
    const int32_t tos = out->tos ? out->tos[rows[i]] : 0;
    memcpy(out->controls + messages * out->control_bytes, &tos, sizeof tos);
    messages++;
  }
  out->rows = i;
  return messages;
}
