// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary of the slot protocol: types, and codes of a contribution, a slot and its verdict. Sizes come from
// whoever includes it.
// Numbers here are part of the wire format or of a counter's index: add, never renumber.

#ifndef SUMWIRE_CODES_P4_
#define SUMWIRE_CODES_P4_

typedef bit<(WORD_BITS)> word_t;
typedef bit<32> bitmap_t;
typedef bit<32> slot_t;
typedef bit<64> token_t;
typedef bit<152> opening_t;
typedef bit<256> state_t;
typedef bit<2> spray_t;

// token: of packets that belong to no run. Those of a run's greeting have it.
const token_t TOKEN_NONE = 0;
// Runs have tokens from here on. Below are generations, which greetings have instead.
const token_t TOKENS_OF_RUNS = 0x100000000;
// bucket of the packets that open a run: they bring its token to the switch.
const bit<16> BUCKET_OPENS_RUN = 0xFE00;

// How a job's slots are divided among the switches at the top of its tree, as a switch needs to know it. By default
// each slot goes to one of those above, or there are none: SPRAY_SLOT of hosts.p4.
const spray_t SPRAY_HASH = 1;  // the rounds of a slot go to different ones
const spray_t SPRAY_ROOT = 2;  // this is one of them: a slot may come here in any round, when another has failed

// flags
const bit<8> FLAG_FLUSH = 0x01;       // close the slot, if as many contributors are in as the header says
const bit<8> FLAG_INCOMPLETE = 0x02;  // closed by a FLUSH that any number was enough for
const bit<8> FLAG_OVERFLOW = 0x04;    // an element of SUM32 left its range
const bit<8> FLAG_TRIMMED = 0x08;     // a THC contribution lost its low planes on its way
const bit<8> FLAG_CE = 0x10;          // a contribution met a long queue (ECN)
const bit<8> FLAG_RESYNC = 0x20;      // sent once more
const bit<8> FLAG_MISSING = 0x40;     // closed by a FLUSH that says how few are enough, or with void contributions
const bit<8> FLAG_CLOSED = 0x80;      // of an INFORM: the slot has its result

// Those that no host sends.
const bit<8> FLAGS_OF_SWITCHES = FLAG_INCOMPLETE + FLAG_CE + FLAG_MISSING + FLAG_CLOSED;

// cut, of a result: the low bits count the planes that its contributions lacked, all together.
const bit<8> CUT_RESULT = 0x80;  // the result itself has only its top six planes

// verdict: index of the counter `verdicts`
const bit<32> VERDICT_NONE = 0;
const bit<32> VERDICT_FIRST = 1;
const bit<32> VERDICT_ADD = 2;
const bit<32> VERDICT_LAST = 3;
const bit<32> VERDICT_DUPLICATE = 4;
const bit<32> VERDICT_REPEAT = 5;
const bit<32> VERDICT_FLUSH = 6;
const bit<32> VERDICT_STALE = 7;
const bit<32> VERDICT_REJECT = 8;
const bit<32> VERDICT_ASK = 9;    // waiting for the switch above: the partial result goes up once more
const bit<32> VERDICT_DOWN = 10;  // the result of the switch above
const bit<32> VERDICT_KNOWN = 11; // a result of the switch above that is here already, or too late
const bit<32> VERDICT_INFORM = 12;  // a worker was told how the slot stands
const bit<32> VERDICT_RELAY = 13;   // a STALE or REFUSED of the switch above, passed on to the workers
const int VERDICTS = 16;

// Phase of a slot. It begins with PHASE_OPEN of hosts.p4.
const bit<2> PHASE_WAITING = 1;  // the partial result is on its way up, the result not yet here
const bit<2> PHASE_CLOSED = 2;   // the payload is the result

// reject reason: index of the counter `rejects`
const bit<32> REJECT_NONE = 0;
const bit<32> REJECT_LENGTH = 1;       // frame, IPv4, UDP and `words` disagree on the length
const bit<32> REJECT_VERSION = 2;
const bit<32> REJECT_KIND = 3;         // not a kind that a worker sends to a switch
const bit<32> REJECT_OP = 4;           // unknown op
const bit<32> REJECT_WORDS = 5;        // not the number of words this op has
const bit<32> REJECT_JOB = 6;          // no such job
const bit<32> REJECT_WORKER = 7;       // no such worker in the job
const bit<32> REJECT_PORT = 8;         // the worker is behind another port
const bit<32> REJECT_ADDRESS = 9;      // the worker has another source address
const bit<32> REJECT_SLOT = 10;        // outside the job's slots
const bit<32> REJECT_JOB_OP = 11;      // an op the job was not admitted for
const bit<32> REJECT_COUNT = 12;       // count is zero or above what the worker stands for
const bit<32> REJECT_CHECKSUM = 13;    // IPv4 header checksum
const bit<32> REJECT_NOT_SUMWIRE = 14; // to the aggregator's address, but no Sumwire packet
const bit<32> REJECT_CALL = 15;        // another op or bucket than those that opened the slot's round
const bit<32> REJECT_PARENT = 16;      // as from the switch above, but not of the one for this slot
const bit<32> REJECT_UDP_PORT = 17;    // from another UDP port than the worker's
const bit<32> REJECT_FLAGS = 18;       // a host sets a flag that is a lower switch's
const bit<32> REJECT_SOURCE = 19;      // to be forwarded, or ARP: nobody at this port has these addresses
const bit<32> REJECT_BUDGET = 20;      // the job's workers send more than the job's limit
const bit<32> REJECT_TOKEN = 21;       // of a run that is not open at this switch
const bit<32> REJECT_ROUND = 22;       // of the run, but not of the slot's next round
const bit<32> REJECT_TAG = 23;         // of a job with a key: no authentication tag, or a wrong one; or the reverse
const int REJECTS = 32;

#endif
