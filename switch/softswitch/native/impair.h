// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Loss, duplication, reordering and delay of frames. softswitch/runtime/impair.py decides the same from the same state.
#pragma once

#include <stdint.h>

struct ss_impair_spec {
  double drop, dup, reorder;  // probabilities
  uint64_t state;             // of the generator: initial_state() in runtime/impair.py
  uint64_t hold_ns;           // a held frame goes out after this time at the latest
  uint32_t overtaken_by;      // most later frames that may overtake a held one
  uint64_t delay_ns;          // every frame that goes on does so this much later
};

struct ss_impair_counters {
  uint64_t dropped, duplicated, reordered;
};

// The impairment of one direction of one port.
struct ss_impair;

// Takes a frame that goes on; it is valid only during the call. It must not be pushed into the same impairment.
typedef void ss_pass_fn(void *to, const uint8_t *frame, uint32_t length);

struct ss_impair *ss_impair_new(const struct ss_impair_spec *spec);  // NULL: no memory
void ss_impair_free(struct ss_impair *impair);                       // NULL does nothing
// One frame comes; those that go on now are passed in order. A frame that there is no memory to hold is lost.
void ss_impair_push(struct ss_impair *impair, const uint8_t *frame, uint32_t length, uint64_t now_ns, ss_pass_fn *pass,
                    void *to);
void ss_impair_poll(struct ss_impair *impair, uint64_t now_ns, ss_pass_fn *pass, void *to);  // those whose time is up
uint64_t ss_impair_deadline(const struct ss_impair *impair);                                 // UINT64_MAX: none is held
void ss_impair_read_counters(const struct ss_impair *impair, struct ss_impair_counters *out);
