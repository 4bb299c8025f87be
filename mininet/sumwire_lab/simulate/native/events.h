// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core.h"

// Sets when a source has its next event; NEVER: it has none.
void event_set(struct sim *sim, uint32_t source, ps at);
// Makes the heap, after all links and timers were made.
void events_ready(struct sim *sim);
