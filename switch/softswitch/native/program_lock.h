// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A re-entrant ticket lock around the running program: the packet loop and writers take turns, first come, first
// served.
#pragma once

#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>

// Tickets instead of a bare mutex: a loop that releases a mutex takes it again before any waiting thread has woken.
struct ss_lock {
  _Atomic uint64_t next;     // ticket of the next thread that comes
  _Atomic uint64_t serving;  // ticket of the thread inside
  _Atomic pthread_t owner;   // thread inside; 0: none
  uint32_t depth;            // how many times the owner has entered
  pthread_mutex_t mutex;     // only for threads that have to sleep
  pthread_cond_t turned;
  struct ss_machine *machine;  // the running program, NULL without one; read and written inside only
  uint64_t start_ns;           // CLOCK_MONOTONIC where P4's timestamps are 0
};

struct ss_lock *ss_lock_new(uint64_t start_ns);  // NULL: no memory
void ss_lock_free(struct ss_lock *lock);
void ss_lock_enter(struct ss_lock *lock);  // may be nested: leave as many times
void ss_lock_leave(struct ss_lock *lock);
// Lets waiting threads in, then enters again; for a thread that has entered once.
void ss_lock_yield(struct ss_lock *lock);
void ss_lock_run(struct ss_lock *lock, struct ss_machine *machine);  // from now on; NULL drops every frame

// Does another thread wait? To be asked by the thread inside.
static inline int ss_lock_wanted(struct ss_lock *lock) {
  return atomic_load_explicit(&lock->next, memory_order_relaxed) !=
         atomic_load_explicit(&lock->serving, memory_order_relaxed) + 1;
}
