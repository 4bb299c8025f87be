// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The slots of a switch or a server that adds packets: the verdicts of docs/protocol.md.
#pragma once

#include "core.h"

struct child {
  uint32_t node, who;  // the worker, or the seat of a lower switch
};

enum slot_state { OPEN, WAITS_ABOVE, CLOSED };

// `next`: the node's slots for another job, or NONE.
struct tree {
  uint32_t node, job, next, above, paths, seat, children, slots, words;
  struct child *child;
  uint32_t *chunk;    // the newest chunk of each slot, NONE before the first
  uint32_t *count;
  uint8_t *state, *marked;
  uint64_t *members;  // `words` of each slot
  uint64_t first, added, last, duplicate, repeat, stale, ask, down, known;
};

// A contribution, a partial result or a result from above has arrived.
void tree_take(struct sim *sim, uint32_t node, const struct packet *packet);
