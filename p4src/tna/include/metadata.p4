// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What the program knows about a packet besides its headers.

#ifndef SUMWIRE_TNA_METADATA_P4_
#define SUMWIRE_TNA_METADATA_P4_

#include "headers.p4"

typedef bit<16> cell_t;
typedef bit<4> lane_op_t;
typedef bit<4> tna_verdict_t;

// What all lanes do with the packet.
const lane_op_t LANE_IDLE = 0;
const lane_op_t LANE_SET = 1;
const lane_op_t LANE_ADD = 2;   // of THC and SUM32, and of SIGN, whose masks leave no two workers the same bit
const lane_op_t LANE_MAX = 3;
const lane_op_t LANE_READ = 4;

// A slot's round and run.
struct opening_pair_t {
    bit<32> round;
    bit<32> run;
}

struct tna_metadata_t {
    // parser -> forwarding, ingress, verdict.
    ipv4_t lookup_address;  // the destination, for the table
    bool checksum_error;
    lane_op_t fold;         // what the op does where a packet is not the slot's first
    // admission -> all others.
    bit<1> admitted;
    cell_t cell;            // the slot's place in the registers
    bitmap_t worker_bit;
    bitmap_t others;        // all workers of the job but this one
    bitmap_t everyone;
    bit<8> workers;         // of the job
    MulticastGroupId_t group;
    bit<4> codebook;        // THC: which table of indices
    bit<8> seat;            // SIGN: the number in the draw
    bit<8> draw;
    // opening -> contributors, verdict, reply.
    bit<1> fresh;           // another run's slot, or an older round's
    bit<32> newer_round;    // the slot's round, if the packet is of an older one; else 0
    // contributors -> verdict.
    bitmap_t missing;       // who was not in before this packet
    // verdict -> lanes, reply, accounting.
    tna_verdict_t verdict;
    lane_op_t lane_op;
}

struct tna_egress_metadata_t {
}

#endif
