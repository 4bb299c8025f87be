// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core.h"

// A link's next event: a packet leaves its queue, or arrives at its end.
void link_event(struct sim *sim, uint32_t link);
// A packet has arrived at a node.
void node_take(struct sim *sim, uint32_t node, struct packet *packet);
