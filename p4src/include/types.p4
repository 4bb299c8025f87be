// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary of the program beside that of the slot protocol, codes.p4: types, and codes on the wire.
// Numbers here are part of the wire format or of a counter's index: add, never renumber.

#ifndef SUMWIRE_TYPES_P4_
#define SUMWIRE_TYPES_P4_

#include "sizes.p4"
#include "codes.p4"

typedef bit<2048> wide_t;  // the widest that p4c knows: 256 values of 8 bits
typedef bit<48> mac_t;
typedef bit<32> ipv4_t;
typedef bit<9> port_t;
typedef bit<16> job_t;
typedef bit<8> worker_t;
typedef bit<64> tag_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP = 0x0806;
const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;
const bit<8> IP_PROTOCOL_UDP = 17;
const bit<8> RESULT_TTL = 64;
// bmv2's drop port.
const port_t DROP_PORT = 511;

const bit<16> SUMWIRE_PORT = 21335;
const bit<4> SUMWIRE_VERSION = 2;
// Of this program, in the answer to a HELLO. Counted up with every change of what hosts meet.
const bit<8> PROGRAM_REVISION = 6;

// kind
const bit<4> KIND_CONTRIBUTE = 1;
const bit<4> KIND_RESULT = 2;
const bit<4> KIND_STALE = 3;
const bit<4> KIND_PROBE = 4;   // a worker asks how the slot stands
const bit<4> KIND_INFORM = 5;  // the answer, to that worker alone
const bit<4> KIND_REFUSED = 6;  // why a contribution or a probe is refused, to its sender alone

// op. A job's entry allows ops by the bit (1 << op).
const bit<8> OP_NONE = 0;  // of a HELLO: a PROBE that asks for slot and switch, whatever the op
const bit<8> OP_THC = 1;
const bit<8> OP_MAX32 = 2;
const bit<8> OP_SUM32 = 3;
const bit<8> OP_SIGN = 4;
const bit<8> OP_VOTE = 5;
const bit<8> OP_MIN32 = 6;
const bit<8> OP_JUMBO = 7;  // THC with 8192 values in a packet

// Words a packet has by op: up from a host, up from a lower switch (a partial result), down.
const bit<8> THC_WORDS_UP = 4;
const bit<8> THC_WORDS_PARTIAL = 8;
const bit<8> THC_WORDS_DOWN = 8;
// A contribution cut to its two top planes (FLAG_TRIMMED), and a result cut to its top six (CUT_RESULT).
const bit<8> THC_WORDS_TRIMMED = 2;
const bit<8> THC_WORDS_CUT = 6;
const bit<8> SUM32_WORDS = 8;
const bit<8> SIGN_WORDS = 8;
const bit<8> VOTE_WORDS_UP = 2;
const bit<8> VOTE_WORDS_PARTIAL = 6;
const bit<8> VOTE_WORDS_DOWN = 2;
const bit<8> JUMBO_WORDS = 64;
// Of the element-wise ops, in every direction: control/elementwise.p4.
const bit<8> ELEMENTWISE_WORDS = 1;
// These ops, for the parser's selects: ROW of each is a line there.
#define ELEMENTWISE_OPS(ROW) \
    ROW(OP_MAX32) \
    ROW(OP_MIN32)

// ECN (RFC 3168). A packet that may be marked is protected; one that may not is dropped instead.
const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_ECT = 2;
const bit<2> ECN_CE = 3;
// DSCP: priority (3 bits), drop class (2 bits), 0.
const bit<6> DSCP_PRIORITY = 0x38;

// What a virtual queue decides: the low bits of queue_decisions' index.
const bit<2> QUEUE_PASS = 0;
const bit<2> QUEUE_MARK = 1;
const bit<2> QUEUE_DROP = 2;
const bit<2> QUEUE_TRIM = 3;

// What the table `degrade` does to the packets it hits.
const bit<8> DEGRADE_TRIM = 1;     // contributions lose their low planes
const bit<8> DEGRADE_DROP = 2;     // contributions arrive, but do not count
const bit<8> DEGRADE_RESULTS = 4;  // results lose their low planes

// Rates are bytes in 1024 us, and lengths are kept in 1/1024 bytes, so that a time in us times a rate is a length.
const bit<8> QUEUE_SHIFT = 10;
// The longest time between two packets that counts, 18 minutes: times a rate of 32 bits it fits 64 bits.
const bit<48> QUEUE_LOOKBACK_US = 0x40000000;

// A port gets at most one REFUSED in this time.
const bit<48> REFUSAL_GAP_US = 10000;

#endif
