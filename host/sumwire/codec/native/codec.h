// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The codecs' hot loops, for sumwire.codec.kernels. Words of a chunk lie side by side: planes, or lanes, a byte for
// each value; `stride` is the distance in bytes from one chunk's words to the next's, which may be in another packet.
// `threads` is the number of threads that share the work; results do not depend on it. Nothing here checks its input.
#pragma once

#include <stdint.h>

#include "constants.h"

// Consecutive rotation blocks of one length.
struct codec_blocks {
  uint64_t sign_key;      // of the tensor; a block's key is folded from it and the block's number
  uint64_t first_block;
  uint64_t blocks;
  uint64_t block_values;  // a power of two, at least 1024
  uint64_t threads;
  uint64_t tensor_values;  // of the tensor that the blocks are part of
  uint64_t lanes;          // 1: chunks are lanes of table values, and of sums; 0: planes of indices, and of sums
  float *work;            // room for a block for each thread, if blocks are longer than CODEC_PASS_VALUES
};

// Where indices lie on the grid, see sumwire.codec.tables.CellTables.
struct codec_table {
  float granularity;
  float middle;
  const float *slope;   // by cell; at least CODEC_LOOK_UP, as of the others
  const float *offset;
  const float *levels;
  const float *values;  // by index
};

// Sums of squares of a chunk's values, in float32.
void codec_square_sums(const float *x, uint64_t length, float *sums, uint64_t threads);
// The same of x + y, which is written to `total`.
void codec_add_square_sums(const float *x, const float *y, uint64_t length, float *total, float *sums,
                           uint64_t threads);
// Sums of squares in float64, for values whose squares leave the range of float32.
void codec_wide_square_sums(const float *x, uint64_t length, double *sums);
// Sums of magnitudes.
void codec_magnitude_sums(const float *x, uint64_t length, double *sums);

// The largest magnitude of H D x by block, of the `present` values at x, padded with zeros to whole blocks.
void codec_thc_ranges(const struct codec_blocks *at, const float *x, uint64_t present, float *ranges);

// `flipped`: bits of every rounding number that are the other way round.
// Indices, or what they stand for, of the `present` values at x, padded with zeros to whole blocks. to_grid is by
// block. Unless `left` is NULL, x minus the values that the indices stand for goes there; from_grid is by chunk.
void codec_thc_encode(const struct codec_blocks *at, const struct codec_table *table, uint64_t rounding_key,
                      uint64_t flipped, uint64_t first_value, const float *x, uint64_t present, const float *to_grid, uint8_t *out,
                      int64_t stride, const float *from_grid, float *left);

// The three that follow return whether all is as usual. If not, what they wrote means nothing.
// Norms of blocks of so many chunks, from the sums of squares of the `present` chunks. Usual: sums of squares between
// least and most.
int codec_thc_norms(const float *sums, uint64_t present, const intptr_t *block_chunks, uint64_t blocks, double least,
                    double most, float *norms);
// to_grid by block; by chunk the value of a grid cell. Usual: norms from least to most.
int codec_thc_scales(const float *norms, const intptr_t *block_chunks, uint64_t blocks, double least, double most,
                     double increment, float *to_grid, double *cells, float *from_grid);
// Sums to the `present` values at target, as codec_thc_decode does. Sums are divided by `divisor`, or by their
// counts if it is 0. Usual: counts from 1 to `most` and to `divisor`, and sums that so many contributors reach. `cells`,
// the value of a grid cell, and counts are by chunk.
int codec_thc_decode_usual(const struct codec_blocks *at, const uint8_t *words, int64_t stride, const int64_t *counts,
                           int64_t most, int64_t granularity, int64_t divisor, const double *cells, float *target,
                           uint64_t present);
// Largest sum of every chunk; `lanes` as in codec_blocks.
void codec_largest_sums(const uint8_t *words, int64_t stride, uint64_t chunks, uint64_t lanes, uint8_t *largest);

// Sums to the `present` values at target; middle and from_grid are by chunk.
void codec_thc_decode(const struct codec_blocks *at, const uint8_t *words, int64_t stride, const float *middle,
                      const float *from_grid, float *target, uint64_t present);

// Grid points 0..granularity, at most 255, of the `present` values at x, padded with zeros to whole blocks.
void codec_grid_points(const struct codec_blocks *at, uint64_t rounding_key, uint64_t flipped, uint64_t first_value,
                       const float *x, uint64_t present, const float *to_grid, float granularity, uint8_t *points);
// D H y to the `present` values at target; y are the values of whole blocks, times their block's cell.
void codec_grid_return(const struct codec_blocks *at, const float *values, const float *cells, float *target,
                       uint64_t present);
// The `present` points as fields of so many bits, `number` to an element; zeros after them.
void codec_fields_pack(const uint8_t *points, uint64_t present, uint64_t number, uint64_t bits, uint8_t *out,
                       int64_t stride, uint64_t chunks, uint64_t threads);
// (field - middle) * share, both by chunk.
void codec_fields_values(const uint8_t *words, int64_t stride, uint64_t number, uint64_t bits, const float *middle,
                         const float *shares, float *values, uint64_t chunks, uint64_t threads);

// SUM32. Exponents of the largest magnitudes by chunk, plus `bias`; 0 for zeros, CODEC_NOT_FINITE if one is not finite.
void codec_sum32_exponents(const float *x, uint64_t length, uint32_t bias, uint32_t *exponents);
// Fixed point of at most `most`. Two factors by chunk, to_units and from_units, make it of values and values of it.
void codec_sum32_encode(const float *x, uint64_t length, const double *to_units, double most, uint8_t *out,
                        int64_t stride, uint64_t threads);
// Sums divided by their divisors, which are above 0.
void codec_sum32_decode(const uint8_t *words, int64_t stride, const int64_t *divisors, const double *from_units,
                        float *target, uint64_t length, uint64_t threads);
// x minus its fixed point; x itself in chunks that are not included. NULL: all are.
void codec_sum32_residual(const float *x, uint64_t length, const double *to_units, const double *from_units,
                          double most, const uint8_t *included, float *target, uint64_t threads);

// Naive quantization. Bits of the largest magnitudes by group of CODEC_NAIVE_GROUP values, CODEC_NOT_FINITE if one is not
// finite. `steps`, by group, are what a step of an index stands for, 0 in a group of zeros.
void codec_naive_largest(const float *x, uint64_t length, uint32_t *largest);
// Index planes of x / step + most.
void codec_naive_encode(const float *x, uint64_t length, const float *steps, float most, uint8_t *out, int64_t stride,
                        uint64_t threads);
// Sum planes to (sum - middle) share step; the first two are by chunk.
void codec_naive_decode(const uint8_t *words, int64_t stride, const float *middle, const float *shares,
                        const float *steps, float *target, uint64_t length, uint64_t threads);
// x minus what its indices stand for; x itself in chunks that are not included. NULL: all are. Values that are not finite
// count as 0.
void codec_naive_residual(const float *x, uint64_t length, const float *steps, float most, const uint8_t *included,
                          float *target, uint64_t threads);

// A bit for each value, 1 unless it is below 0, and 0 for the rest of the last byte.
// Returns whether all are finite.
int codec_pack_signs(const float *x, uint64_t length, uint8_t *bits);
// The same in chunks of `chunk_bytes`, the last one filled with zeros; by chunk, whether some value is not finite.
int codec_pack_sign_chunks(const float *x, uint64_t length, uint64_t chunk_bytes, uint8_t *words, int64_t stride,
                           uint8_t *outside);
// A bit for each value, 1 with probability 1/2 + x inverse / 2, drawn by the stream's numbers from first_value on.
void codec_draw_signs(const float *x, uint64_t length, double inverse, uint64_t key, uint64_t first_value,
                      uint8_t *bits);
// +-factor for the first `length` bits of chunks of `chunk_bytes`. `tensor_values`: of the tensor that target is part of.
void codec_unpack_signs(const uint8_t *words, int64_t stride, uint64_t chunk_bytes, float factor, float *target,
                        uint64_t length, uint64_t tensor_values);
