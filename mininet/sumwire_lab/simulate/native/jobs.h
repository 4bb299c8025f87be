// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Jobs and their workers, which exchange tensors over the slots of switches (slots.h) by the rules of window.h.
#pragma once

#include "core.h"
#include "window.h"

// Bytes of an op's packets on the wire: a worker's contribution, a lower switch's partial result, a result.
struct op_bytes {
  uint32_t up, partial, down;
};

struct exchange {
  uint32_t op, chunks;
  uint32_t level;    // of its packets, where links have levels
  uint32_t sampled;  // whether its round trips are samples of the path
};

struct job {
  uint32_t slots, ops, exchanges;
  struct op_bytes *op;
  struct exchange *exchange;
};

struct worker {
  uint32_t job, node, seat;
  uint32_t above, paths;  // the node that adds its packets, or the first of so many that share the chunks
  uint32_t timer, task;
  uint32_t exchange;      // the one under way
  ps wakes_at;
  struct window *window;
};

// Begins a worker's exchange.
void job_exchange(struct sim *sim, uint32_t worker, uint32_t task);
// A RESULT has arrived at its worker.
void job_result(struct sim *sim, const struct packet *packet);
