// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#include "tasks.h"

#include <stdlib.h>
#include <string.h>

#include "flows.h"
#include "jobs.h"

// The ends of WORK: a heap, whose first one has a timer.

static void agenda_put(struct sim *sim, uint32_t index, struct place place) {
  for (; index > 0 && sim->agenda[(index - 1) / 2].at > place.at; index = (index - 1) / 2)
    sim->agenda[index] = sim->agenda[(index - 1) / 2];
  sim->agenda[index] = place;
}

static struct place agenda_take(struct sim *sim) {
  const struct place first = sim->agenda[0], last = sim->agenda[--sim->agenda_count];
  uint32_t index = 0;
  for (uint32_t child; (child = 2 * index + 1) < sim->agenda_count; index = child) {
    child += child + 1 < sim->agenda_count && sim->agenda[child + 1].at < sim->agenda[child].at;
    if (sim->agenda[child].at >= last.at) break;
    sim->agenda[index] = sim->agenda[child];
  }
  sim->agenda[index] = last;
  return first;
}

static void plan_end(struct sim *sim, uint32_t task, ps at) {
  if (sim->agenda_count == sim->agenda_room) {
    sim->agenda_room = sim->agenda_room ? 2 * sim->agenda_room : 64;
    sim->agenda = realloc(sim->agenda, sim->agenda_room * sizeof *sim->agenda);
  }
  agenda_put(sim, sim->agenda_count++, (struct place){.at = at, .source = task});
  sim_set(sim, sim->agenda_timer, sim->agenda[0].at);
}

static void works_end(struct sim *sim, uint32_t unused) {
  (void)unused;
  while (sim->agenda_count && sim->agenda[0].at <= sim->now) task_end(sim, agenda_take(sim).source);
  sim_set(sim, sim->agenda_timer, sim->agenda_count ? sim->agenda[0].at : NEVER);
}

void task_begin(struct sim *sim, uint32_t number) {
  struct task *task = &sim->tasks[number];
  task->began = sim->now;
  if (task->kind == MESSAGE) return flow_send(sim, task->owner, number);
  if (task->kind == EXCHANGE) return job_exchange(sim, task->owner, number);
  const ps at = task->owner == NONE || task->amount == 0 ? sim->now + task->amount : sim_work(sim, task->owner, task->amount);
  plan_end(sim, number, at);
}

void task_end(struct sim *sim, uint32_t number) {
  struct task *task = &sim->tasks[number];
  task->ended = sim->now;
  sim->tasks_open--;
  for (uint32_t k = 0; k < task->nexts; k++) {
    const uint32_t next = sim->next_tasks[task->next + k];
    if (--sim->tasks[next].waits == 0) task_begin(sim, next);
  }
}

// Gives the simulation its tasks: arrays, which are copied.
void sim_tasks(struct sim *sim, uint32_t count, const void *tasks, uint32_t next_count, const void *next) {
  sim->tasks = malloc(count * sizeof *sim->tasks);
  memcpy(sim->tasks, tasks, count * sizeof *sim->tasks);
  sim->next_tasks = malloc(next_count * sizeof *sim->next_tasks);
  memcpy(sim->next_tasks, next, next_count * sizeof *sim->next_tasks);
  sim->task_count = count;
  sim->tasks_open = count;
  sim->agenda_timer = sim_timer(sim, works_end, 0);
}

// Begins the tasks that wait for nothing.
void tasks_start(struct sim *sim) {
  for (uint32_t task = 0; task < sim->task_count; task++)
    if (sim->tasks[task].waits == 0 && sim->tasks[task].began == NEVER) task_begin(sim, task);
}
