// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0

#include "gate.h"

#include <stdlib.h>

struct ss_gate *ss_gate_new(uint64_t start_ns) {
  struct ss_gate *gate = calloc(1, sizeof *gate);
  if (gate == NULL) return NULL;
  pthread_mutex_init(&gate->mutex, NULL);
  pthread_cond_init(&gate->turned, NULL);
  gate->start_ns = start_ns;
  return gate;
}

void ss_gate_free(struct ss_gate *gate) {
  pthread_cond_destroy(&gate->turned);
  pthread_mutex_destroy(&gate->mutex);
  free(gate);
}

static void wait_for(struct ss_gate *gate, uint64_t ticket) {
  if (atomic_load(&gate->serving) != ticket) {
    pthread_mutex_lock(&gate->mutex);
    while (atomic_load(&gate->serving) != ticket) pthread_cond_wait(&gate->turned, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
  }
  atomic_store_explicit(&gate->owner, pthread_self(), memory_order_relaxed);
  gate->depth = 1;
}

static void serve_next(struct ss_gate *gate) {
  atomic_store_explicit(&gate->owner, (pthread_t)0, memory_order_relaxed);
  uint64_t serving = atomic_load_explicit(&gate->serving, memory_order_relaxed) + 1;
  // Stored before `next` is read, and a comer writes `next` before it reads this: one of the two sees the other.
  atomic_store(&gate->serving, serving);
  if (atomic_load(&gate->next) == serving) return;
  pthread_mutex_lock(&gate->mutex);
  pthread_cond_broadcast(&gate->turned);
  pthread_mutex_unlock(&gate->mutex);
}

void ss_gate_enter(struct ss_gate *gate) {
  // Only this thread ever stores its own name there, so what it reads is either its own or somebody else's.
  if (atomic_load_explicit(&gate->owner, memory_order_relaxed) == pthread_self()) gate->depth++;
  else wait_for(gate, atomic_fetch_add(&gate->next, 1));
}

void ss_gate_leave(struct ss_gate *gate) {
  if (--gate->depth == 0) serve_next(gate);
}

void ss_gate_yield(struct ss_gate *gate) {
  // The new ticket first: who is let in may take this thread's CPU, and come again and again before it runs.
  uint64_t ticket = atomic_fetch_add(&gate->next, 1);
  serve_next(gate);
  wait_for(gate, ticket);
}

void ss_gate_run(struct ss_gate *gate, struct ss_machine *machine) {
  ss_gate_enter(gate);
  gate->machine = machine;
  ss_gate_leave(gate);
}
