// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#include "threads.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

struct share {
  codec_items items;
  const void *context;
  uint64_t count;
  unsigned threads;
};

// `round` is the number of the share that is being done; `left` counts helpers that have not finished theirs.
static struct {
  pthread_mutex_t busy, lock;
  pthread_cond_t begins, ends;
  struct share share;
  unsigned helpers, left;
  uint64_t round;
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .begins = PTHREAD_COND_INITIALIZER,
          .ends = PTHREAD_COND_INITIALIZER};

static void do_share(const struct share *share, unsigned thread) {
  const uint64_t first = share->count * thread / share->threads;
  const uint64_t last = share->count * (thread + 1) / share->threads;
  if (first < last) share->items(share->context, thread, first, last);
}

static void *help(void *number) {
  const unsigned thread = (unsigned)(uintptr_t)number;
  uint64_t done = 0;
  pthread_mutex_lock(&pool.lock);
  for (;;) {
    while (pool.round == done || thread >= pool.share.threads) {
      done = pool.round;
      pthread_cond_wait(&pool.begins, &pool.lock);
    }
    done = pool.round;
    const struct share share = pool.share;
    pthread_mutex_unlock(&pool.lock);
    do_share(&share, thread);
    pthread_mutex_lock(&pool.lock);
    if (--pool.left == 0) pthread_cond_signal(&pool.ends);
  }
  return NULL;
}

// A child of fork has no helpers, and locks as they were.
static void forget(void) {
  memset(&pool, 0, sizeof pool);
  pthread_mutex_init(&pool.busy, NULL);
  pthread_mutex_init(&pool.lock, NULL);
  pthread_cond_init(&pool.begins, NULL);
  pthread_cond_init(&pool.ends, NULL);
}

// Starts helpers until there are enough for so many threads. Returns how many threads there are.
static unsigned start(unsigned threads) {
  static int registered = 0;
  if (!registered) registered = pthread_atfork(NULL, NULL, forget) == 0;
  sigset_t every, before;
  sigfillset(&every);
  // Signals go to the threads that the program knows.
  pthread_sigmask(SIG_SETMASK, &every, &before);
  while (registered && pool.helpers + 1 < threads) {
    pthread_t helper;
    if (pthread_create(&helper, NULL, help, (void *)(uintptr_t)(pool.helpers + 1)) != 0) break;
    pthread_detach(helper);
    pool.helpers++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return pool.helpers + 1 < threads ? pool.helpers + 1 : threads;
}

void codec_share(codec_items items, const void *context, uint64_t count, uint64_t threads) {
  if (threads > THREADS_MAX) threads = THREADS_MAX;
  if (threads > count) threads = count;
  if (threads < 2 || pthread_mutex_trylock(&pool.busy) != 0) {
    if (count) items(context, 0, 0, count);
    return;
  }
  const struct share share = {items, context, count, start((unsigned)threads)};
  pthread_mutex_lock(&pool.lock);
  pool.share = share;
  pool.left = share.threads - 1;
  pool.round++;
  pthread_cond_broadcast(&pool.begins);
  pthread_mutex_unlock(&pool.lock);
  do_share(&share, 0);
  pthread_mutex_lock(&pool.lock);
  while (pool.left) pthread_cond_wait(&pool.ends, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
  pthread_mutex_unlock(&pool.busy);
}
