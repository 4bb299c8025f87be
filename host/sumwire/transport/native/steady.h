// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SUMWIRE_STEADY_H
#define SUMWIRE_STEADY_H

#include <stdint.h>

#include "constants.h"

// The arrays of one exchange: sumwire.transport.scheduling and sumwire.transport.scheduling tell what is in them.
struct steady_exchange {
  uint64_t chunks;
  uint64_t short_step;
  uint64_t long_step;
  int64_t *ready;
  uint8_t *flying;
  uint8_t *landed;
  int64_t *first;
  int64_t *latest;
  double *sent_at;
  int64_t *log;
};

// `latest`: the largest numbers of first transmissions, rising; 0 where there are fewer. `sent_at`: when the chunk was
// sent that was longest in flight, of the `sent_once` chunks that were sent only once. `head`: before and after, the
// place of the log before which all entries are dead; `end`: behind its last entry.
struct steady_landing {
  int64_t latest[REORDER_TOLERANCE];
  double sent_at;
  uint64_t sent_once;
  uint64_t head;
  uint64_t end;
};

uint64_t steady_send(const struct steady_exchange *exchange, uint64_t begin, uint64_t end, uint64_t most, int64_t below,
                     int64_t number, double now);
uint64_t steady_land(const struct steady_exchange *exchange, uint64_t first, uint64_t last, uint64_t end,
                     struct steady_landing *landing);

#endif
