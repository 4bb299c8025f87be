// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The Walsh-Hadamard transform of sumwire.codec.rotation: the same additions in the same order.
#pragma once

#include <stddef.h>

// H v in place, unnormalised. d is a power of two, at least 1024.
void codec_hadamard(float *v, size_t d);
