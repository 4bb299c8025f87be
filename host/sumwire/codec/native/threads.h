// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Work shared by threads. They are started at the first use and then wait for the next.
#pragma once

#include <stdint.h>

enum { THREADS_MAX = 64 };

// Does items first..last-1. `thread` is below the number of threads that were asked for, and no other has it.
typedef void (*codec_items)(const void *context, unsigned thread, uint64_t first, uint64_t last);

// Does `count` items with up to `threads` threads, this one included. Where the others are busy with another caller's
// work, this one does all.
void codec_share(codec_items items, const void *context, uint64_t count, uint64_t threads);
