// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A slot's state: one number of 256 bits, so that a packet costs one register read and one write. bmv2 pays for every
// register and for every field, hardly for their width. Fields by their place, the most significant first:
//
// | owner | token | round | op | bucket | phase | opens | unused |
// |    32 |    64 |    32 |  8 |     16 |     2 |     1 |      5 |
//
// | count | contributors | voided | arrived | flags | cut |
// |     8 |           32 |     32 |       8 |     8 |   8 |

#ifndef SUMWIRE_STATE_P4_
#define SUMWIRE_STATE_P4_

#include "codes.p4"

// Owner, token, round and call (op and bucket): what the packet that opens a round fixes.
#define STATE_OPENING(state) state[255:104]
// Whose slot it is: the job's generation, and its run.
#define STATE_RUN(state) state[255:160]
#define OPENING_RUN(opening) opening[151:56]
#define OPENING_OWNER(opening) opening[151:120]
#define STATE_OWNER(state) state[255:224]
#define STATE_ROUND(state) state[159:128]
#define STATE_PHASE(state) state[103:102]
// The round opens a run.
#define STATE_OPENS(state) state[101:101]
// All up to the count, for putting a state together anew.
#define STATE_HEAD(state) state[255:96]
// What a host divides by.
#define STATE_COUNT(state) state[95:88]
#define STATE_CONTRIBUTORS(state) state[87:56]
// Contributors that have arrived and are not in the sum, see control/degrade.p4.
#define STATE_VOIDED(state) state[55:24]
// Contributors at this switch, void ones too; outside a tree, and without void ones, the count.
#define STATE_ARRIVED(state) state[23:16]
// Of the result, once closed.
#define STATE_FLAGS(state) state[15:8]
// Planes missing, and CUT_RESULT.
#define STATE_CUT(state) state[7:0]

const int OPENING_OWNER_AT = 120;
const int OPENING_TOKEN_AT = 56;
const int OPENING_ROUND_AT = 24;
const int OPENING_OP_AT = 16;
const int STATE_PHASE_AT = 102;
const int STATE_OPENS_AT = 101;
const int STATE_COUNT_AT = 88;
const int STATE_CONTRIBUTORS_AT = 56;
const int STATE_VOIDED_AT = 24;
const int STATE_ARRIVED_AT = 16;
const int STATE_FLAGS_AT = 8;

// Traits: what kind of packet came in, and how it stands to its slot. verdict.p4 uses bits 1 to 5, too.
const bit<16> TRAIT_REFUSED = 0x8000;     // of another call, run or round than the slot can take
const bit<16> TRAIT_SIX_WORDS = 0x4000;   // the reply has six words of a THC result, not eight
const bit<16> TRAIT_CUTS = 0x2000;        // if this packet closes the slot, the result is cut to its top six planes
const bit<16> TRAIT_VOID = 0x1000;        // a contribution that arrives, but the sum is without it
const bit<16> TRAIT_TRIMMED = 0x0800;     // a THC contribution with only its two top planes
const bit<16> TRAIT_PARTIAL = 0x0400;     // a lower switch's partial result: sums or counters, not indices or signs
const bit<16> TRAIT_ANY_CALL = 0x0200;    // it need not be of the slot's call: a HELLO, STALE or REFUSED
const bit<16> TRAIT_OLDER = 0x0100;       // of a round before the slot's
const bit<16> TRAIT_FROM_ABOVE = 0x0080;  // a RESULT, STALE or REFUSED of the switch above
const bit<16> TRAIT_FRESH = 0x0040;       // a new owner or a newer round: what the slot holds is to be overwritten
const bit<16> TRAIT_BARE = 0x0001;        // nothing to fold in: a PROBE, or of the switch above a STALE or REFUSED

// Effects: what the verdict asks of the payload and of the reply.
const bit<8> EFFECT_FOLDS = 0x01;    // the payload is folded into the slot's
const bit<8> EFFECT_TAKES = 0x02;    // the payload replaces the slot's
const bit<8> EFFECT_CLOSES = 0x04;   // with this packet the slot closes: its quorum is in, or it is flushed
const bit<8> EFFECT_ANSWERS = 0x08;  // a RESULT goes out
const bit<8> EFFECT_GOES_UP = 0x10;  // a partial result goes to the switch above
const bit<8> EFFECT_FILLS = 0x20;    // the two low planes of the result are made up
const bit<8> EFFECT_TELLS = 0x40;    // a STALE, INFORM or notice goes out
const bit<8> EFFECT_OVERFLOWS = 0x80;  // an element of SUM32 left its range
const bit<8> EFFECTS_PAYLOAD = EFFECT_ANSWERS | EFFECT_GOES_UP;
const bit<8> EFFECTS_REPLY = EFFECT_ANSWERS | EFFECT_GOES_UP | EFFECT_TELLS;

#endif
