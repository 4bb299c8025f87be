// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Loss, duplication and reordering of frames: softswitch/impair.py decides the same for the same state.
#pragma once

#include <stdint.h>

struct ss_lane_spec {
  double drop, dup, reorder;  // probabilities
  uint64_t state;             // of the generator: lane_state() in impair.py
  uint64_t hold_ns;           // a held frame goes out after this time at the latest
  uint32_t overtaken_by;      // most later frames that may overtake a held one
};

struct ss_lane_counters {
  uint64_t dropped, duplicated, reordered;
};

// One direction of one port.
struct ss_lane;

// Takes a frame that goes on; it is valid only during the call. It must not come back to the same lane.
typedef void ss_pass_fn(void *to, const uint8_t *frame, uint32_t length);

struct ss_lane *ss_lane_new(const struct ss_lane_spec *spec);  // NULL: no memory
void ss_lane_free(struct ss_lane *lane);                       // NULL does nothing
// One frame comes; those that go on now are passed in order. A frame that there is no memory to hold is lost.
void ss_lane_push(struct ss_lane *lane, const uint8_t *frame, uint32_t length, uint64_t now_ns, ss_pass_fn *pass,
                  void *to);
void ss_lane_poll(struct ss_lane *lane, uint64_t now_ns, ss_pass_fn *pass, void *to);  // those whose time is up
uint64_t ss_lane_deadline(const struct ss_lane *lane);                                 // UINT64_MAX: none is held
void ss_lane_read_counters(const struct ss_lane *lane, struct ss_lane_counters *out);
