// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// What THC's kernels need to know of blocks and chunks, in the usual case: sumwire.codec.thc does the rest, with numpy
// and in the same order of operations.
#include <math.h>

#include "codec.h"

// Term i of the `left` terms that are left of `chunks` ones, which are added by halves.
static float term(const float *sums, uint64_t present, uint64_t chunks, uint64_t left, uint64_t i) {
  if (left == chunks) return i < present ? sums[i] : 0;
  return term(sums, present, chunks, 2 * left, i) + term(sums, present, chunks, 2 * left, i + left);
}

int codec_thc_norms(const float *sums, uint64_t present, const intptr_t *block_chunks, uint64_t blocks, double least,
                    double most, float *norms) {
  for (uint64_t block = 0; block < blocks; block++) {
    const uint64_t chunks = (uint64_t)block_chunks[block], here = present < chunks ? present : chunks;
    const double sum = term(sums, here, chunks, 1, 0);
    if (!(sum > least && sum < most)) return 0;
    norms[block] = (float)sqrt(sum);
    sums += here;
    present -= here;
  }
  return 1;
}

int codec_thc_scales(const float *norms, const intptr_t *block_chunks, uint64_t blocks, double least, double most,
                     double increment, float *to_grid, double *cells, float *from_grid) {
  for (uint64_t block = 0; block < blocks; block++) {
    if (!(norms[block] >= least && norms[block] <= most)) return 0;
    const double cell = norms[block] * increment;
    to_grid[block] = (float)(1.0 / cell);
    const double value = cell / (double)(block_chunks[block] * CODEC_CHUNK_VALUES);
    for (intptr_t i = 0; i < block_chunks[block]; i++) {
      *cells++ = value;
      *from_grid++ = (float)value;
    }
  }
  return 1;
}
