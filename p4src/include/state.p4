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

#include "types.p4"

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

#endif
