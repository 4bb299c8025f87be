// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may touch the running program: the packet loop or a writer, one after the other, in the order they came.
#pragma once

#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>

// Tickets instead of a bare mutex: a loop that gives a mutex up takes it again before anybody who waits has woken.
struct ss_gate {
  _Atomic uint64_t next;     // ticket of the next who comes
  _Atomic uint64_t serving;  // ticket of the one inside
  _Atomic pthread_t owner;   // thread of the one inside; 0 with nobody inside
  uint32_t depth;            // how often the owner came in
  pthread_mutex_t mutex;     // only for those who have to sleep
  pthread_cond_t turned;
  struct ss_machine *machine;  // the running program, NULL without one; read and written inside only
  uint64_t start_ns;           // CLOCK_MONOTONIC where P4's timestamps are 0
};

struct ss_gate *ss_gate_new(uint64_t start_ns);  // NULL: no memory
void ss_gate_free(struct ss_gate *gate);
void ss_gate_enter(struct ss_gate *gate);  // again by the thread that is inside: leave as often
void ss_gate_leave(struct ss_gate *gate);
// Lets those in who wait, and comes back in; for a thread that came in once.
void ss_gate_yield(struct ss_gate *gate);
void ss_gate_run(struct ss_gate *gate, struct ss_machine *machine);  // from now on; NULL drops every frame

// Does somebody wait? Asked by the one inside.
static inline int ss_gate_wanted(struct ss_gate *gate) {
  return atomic_load_explicit(&gate->next, memory_order_relaxed) !=
         atomic_load_explicit(&gate->serving, memory_order_relaxed) + 1;
}
