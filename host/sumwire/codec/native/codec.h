// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The codecs' hot loops, for sumwire.codec.kernels. Words of a chunk lie side by side; `stride` is the distance in
// bytes from one chunk's words to the next's, which may be in another packet. Nothing here checks its input.
#pragma once

#include <stdint.h>

#include "constants.h"

// Consecutive rotation blocks of one length, and the rounding stream's place at their first value.
struct codec_blocks {
  uint64_t sign_key;      // of the tensor; a block's key is folded from it and the block's number
  uint64_t first_block;
  uint64_t blocks;
  uint64_t block_values;  // a power of two, at least 1024
  float half_scale;       // what rotating multiplies each value with
  float back_scale;       // what rotating back does
};

// Where indices lie on the grid, see sumwire.codec.tables.CellTables.
struct codec_table {
  float granularity;
  float middle;
  const float *slope;   // by cell; at least CODEC_LOOK_UP, as of the others
  const float *offset;
  const float *levels;
};

// Sums of squares of a chunk's values, in float32.
void codec_square_sums(const float *x, uint64_t length, float *sums);
// Sums of squares in float64, for values whose squares leave the range of float32.
void codec_wide_square_sums(const float *x, uint64_t length, double *sums);
// Sums of magnitudes.
void codec_magnitude_sums(const float *x, uint64_t length, double *sums);

// Index planes of the `present` values at x, padded with zeros to whole blocks. to_grid is by block; `work` has room
// for a block.
void codec_thc_encode(const struct codec_blocks *at, const struct codec_table *table, uint64_t rounding_key,
                      uint64_t first_value, const float *x, uint64_t present, const float *to_grid, uint8_t *out,
                      int64_t stride, float *work);

// Largest sum of every chunk.
void codec_largest_sums(const uint8_t *words, int64_t stride, uint64_t chunks, uint8_t *largest);

// Sum planes to the `present` values at target; middle and from_grid are by chunk.
void codec_thc_decode(const struct codec_blocks *at, const uint8_t *words, int64_t stride, const float *middle,
                      const float *from_grid, float *target, uint64_t present, float *work);

// x minus the values that its index planes stand for, to target, which may be x.
void codec_thc_residual(const struct codec_blocks *at, const struct codec_table *table, const uint8_t *words,
                        int64_t stride, const float *from_grid, const float *x, float *target, uint64_t present,
                        float *work);

// A bit for each value, 1 unless it is below 0, and 0 for the rest of the last byte.
// Returns whether all are finite.
int codec_pack_signs(const float *x, uint64_t length, uint8_t *bits);
// A bit for each value, 1 with probability 1/2 + x inverse / 2, drawn from the stream's words from first_word on.
void codec_draw_signs(const float *x, uint64_t length, double inverse, uint64_t key, uint64_t first_word,
                      uint8_t *bits);
// +-factor for the first `length` bits of chunks of `chunk_bytes`.
void codec_unpack_signs(const uint8_t *words, int64_t stride, uint64_t chunk_bytes, float factor, float *target,
                        uint64_t length);
