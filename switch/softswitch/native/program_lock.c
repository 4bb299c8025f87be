// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0

#include "program_lock.h"

#include <stdlib.h>

struct ss_lock *ss_lock_new(uint64_t start_ns) {
  struct ss_lock *lock = calloc(1, sizeof *lock);
  if (lock == NULL) return NULL;
  pthread_mutex_init(&lock->mutex, NULL);
  pthread_cond_init(&lock->turned, NULL);
  lock->start_ns = start_ns;
  return lock;
}

void ss_lock_free(struct ss_lock *lock) {
  pthread_cond_destroy(&lock->turned);
  pthread_mutex_destroy(&lock->mutex);
  free(lock);
}

static void wait_for(struct ss_lock *lock, uint64_t ticket) {
  if (atomic_load(&lock->serving) != ticket) {
    pthread_mutex_lock(&lock->mutex);
    while (atomic_load(&lock->serving) != ticket) pthread_cond_wait(&lock->turned, &lock->mutex);
    pthread_mutex_unlock(&lock->mutex);
  }
  atomic_store_explicit(&lock->owner, pthread_self(), memory_order_relaxed);
  lock->depth = 1;
}

static void serve_next(struct ss_lock *lock) {
  atomic_store_explicit(&lock->owner, (pthread_t)0, memory_order_relaxed);
  uint64_t serving = atomic_load_explicit(&lock->serving, memory_order_relaxed) + 1;
  // Stored before `next` is read, and a thread that comes writes `next` before it reads this: one sees the other.
  atomic_store(&lock->serving, serving);
  if (atomic_load(&lock->next) == serving) return;
  pthread_mutex_lock(&lock->mutex);
  pthread_cond_broadcast(&lock->turned);
  pthread_mutex_unlock(&lock->mutex);
}

void ss_lock_enter(struct ss_lock *lock) {
  // Only this thread ever stores its own id there, so the id it reads is either its own or another thread's.
  if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == pthread_self()) lock->depth++;
  else wait_for(lock, atomic_fetch_add(&lock->next, 1));
}

void ss_lock_leave(struct ss_lock *lock) {
  if (--lock->depth == 0) serve_next(lock);
}

void ss_lock_yield(struct ss_lock *lock) {
  // The new ticket first: the thread let in may take this CPU and enter again and again before this one runs.
  uint64_t ticket = atomic_fetch_add(&lock->next, 1);
  serve_next(lock);
  wait_for(lock, ticket);
}

void ss_lock_run(struct ss_lock *lock, struct ss_machine *machine) {
  ss_lock_enter(lock);
  lock->machine = machine;
  ss_lock_leave(lock);
}
