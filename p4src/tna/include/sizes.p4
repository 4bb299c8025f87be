// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Sizes of the program for Tofino 1, where they are not those of p4src/include/sizes.p4.

#ifndef SUMWIRE_TNA_SIZES_P4_
#define SUMWIRE_TNA_SIZES_P4_

// A stateful ALU holds 32 bits of a slot: a lane. A stage has four of them, so the lanes take four stages.
const int TNA_LANES = 16;
// Of the sixteenth of a chunk that a packet carries: a word has 64 bits here, 1024 for v1model. Packets of THC, SUM32 and
// SIGN have as many words as there.
const int TNA_WORD_BYTES = 8;
// MAX32 fills the lanes: 16 elements, half of what one word of v1model has.
const bit<8> TNA_MAX32_WORDS = 8;

// Slots of all jobs together: eight blocks of 4096, of which a job has one.
const int TNA_SLOTS = 32768;
// Rows of `admission`: workers of all jobs.
const int TNA_WORKERS_MAX = 1024;
// Rows of a lookup table: 8 tables of a job's indices, of 16 * 16 pairs of indices each.
const int TNA_PAIRS = 2048;
// Rows of a table of masks: 256 draws for each of 16 seats.
const int TNA_MASKS = 4096;

// A datagram with its UDP header: a THC contribution, one that fills the lanes, and one without payload.
const bit<16> TNA_UDP_BYTES_THC = UDP_BYTES + SUMWIRE_BYTES + 4 * TNA_WORD_BYTES;
const bit<16> TNA_UDP_BYTES_LANES = UDP_BYTES + SUMWIRE_BYTES + 8 * TNA_WORD_BYTES;
const bit<16> TNA_UDP_BYTES_BARE = UDP_BYTES + SUMWIRE_BYTES;

#endif
