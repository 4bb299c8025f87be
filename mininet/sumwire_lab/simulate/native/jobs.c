// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#include "jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks.h"

#define SECONDS 1e-12

static double seconds_now(const struct sim *sim) { return (double)sim->now * SECONDS; }

static void wake(struct sim *sim, uint32_t number) {
  struct worker *worker = &sim->workers[number];
  const double seconds = window_wakes(worker->window);
  if (isinf(seconds)) return;
  ps at = (ps)ceil(seconds / SECONDS);
  if (at <= sim->now) at = sim->now + 1;
  // A timer that is set too early wakes in vain, which costs less than setting it anew for each result.
  if (at < worker->wakes_at) sim_set(sim, worker->timer, worker->wakes_at = at);
}

static void send(struct sim *sim, uint32_t number) {
  struct worker *worker = &sim->workers[number];
  const struct job *job = &sim->jobs[worker->job];
  const struct exchange *exchange = &job->exchange[worker->exchange];
  uint64_t chunk;
  enum window_send kind;
  while ((kind = window_take(worker->window, seconds_now(sim), &chunk)) != NOTHING_TO_SEND) {
    const uint32_t sequence = (uint32_t)(worker->window->base + chunk);
    const struct packet packet = {
        .source = worker->node, .target = worker->above + sequence % worker->paths, .owner = worker->job,
        .number = sequence, .more = worker->seat, .bytes = job->op[exchange->op].up, .rank = exchange->op,
        .kind = CONTRIBUTE, .level = (uint8_t)exchange->level, .marks = CAPABLE | (kind == SEND_AGAIN ? AGAIN : 0),
        .path = (uint8_t)sequence,
    };
    sim_send(sim, sim->nodes[worker->node].outbox, &packet);
  }
  wake(sim, number);
}

static void wakes(struct sim *sim, uint32_t number) {
  sim->workers[number].wakes_at = NEVER;
  if (sim->workers[number].task != NONE) send(sim, number);
}

void job_exchange(struct sim *sim, uint32_t number, uint32_t task) {
  struct worker *worker = &sim->workers[number];
  worker->task = task;
  worker->exchange = (uint32_t)sim->tasks[task].amount;
  const struct exchange *exchange = &sim->jobs[worker->job].exchange[worker->exchange];
  window_begin(worker->window, exchange->chunks, exchange->chunks, exchange->sampled, seconds_now(sim));
  send(sim, number);
}

void job_result(struct sim *sim, const struct packet *packet) {
  struct worker *worker = &sim->workers[packet->more];
  const bool fresh = window_result(worker->window, packet->number, packet->marks & CONGESTED, seconds_now(sim));
  if (worker->task == NONE) return;
  if (fresh && worker->window->open == 0) {
    const uint32_t task = worker->task;
    worker->task = NONE;
    return task_end(sim, task);
  }
  send(sim, packet->more);
}

// Makes a job. `ops`, `exchanges`: arrays, which are copied.
uint32_t sim_job(struct sim *sim, uint32_t slots, uint32_t op_count, const void *ops, uint32_t exchange_count,
                 const void *exchanges) {
  struct job job = {.slots = slots, .ops = op_count, .exchanges = exchange_count};
  job.op = malloc(op_count * sizeof *job.op);
  memcpy(job.op, ops, op_count * sizeof *job.op);
  job.exchange = malloc(exchange_count * sizeof *job.exchange);
  memcpy(job.exchange, exchanges, exchange_count * sizeof *job.exchange);
  sim->jobs = realloc(sim->jobs, (sim->job_count + 1) * sizeof job);
  sim->jobs[sim->job_count] = job;
  return sim->job_count++;
}

// Makes a worker of a job. `above`, `paths`, `seat`: where its packets are added, and its seat there. `workers`: of the
// job. `limited`: marks limit its window.
uint32_t sim_worker(struct sim *sim, uint32_t job, uint32_t node, uint32_t above, uint32_t paths, uint32_t seat,
                    uint32_t workers, uint32_t several_paths, uint32_t limited) {
  const struct worker worker = {
      .job = job, .node = node, .seat = seat, .above = above, .paths = paths, .task = NONE, .wakes_at = NEVER,
      .timer = sim_timer(sim, wakes, sim->worker_count),
      .window = window_new(sim->jobs[job].slots, workers, several_paths, limited),
  };
  sim->workers = realloc(sim->workers, (sim->worker_count + 1) * sizeof worker);
  sim->workers[sim->worker_count] = worker;
  return sim->worker_count++;
}
