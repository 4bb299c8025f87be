// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// What hosts do, as a graph: a task begins when all tasks that it waits for have ended.
#pragma once

#include "core.h"

enum task_kind {
  WORK,      // `owner`: a processor (NONE: nobody's), `amount`: picoseconds
  MESSAGE,   // `owner`: a flow, `amount`: bytes; ends when the receiver has them
  EXCHANGE,  // `owner`: a worker of a job, `amount`: an exchange (jobs.h); ends when the worker has all results
};

struct task {
  uint32_t kind, owner;
  uint64_t amount;
  uint32_t waits;         // for so many tasks
  uint32_t next, nexts;   // what follows it: a part of sim.next_tasks
  uint32_t unused;
  ps began, ended;        // NEVER before
};

// Begins a task that waits for nothing any more.
void task_begin(struct sim *sim, uint32_t task);
// Ends a task, and begins those that waited for it alone.
void task_end(struct sim *sim, uint32_t task);
// Begins the tasks that wait for nothing, once everything is made.
void tasks_start(struct sim *sim);
