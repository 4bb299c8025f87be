// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What hosts, controller and lab know of the program by name, and the program only by what it does. No program includes
// this file: `make p4` copies its constants to Python, as those of the others.

// The most hosts whose contributions an op's payload has room for, where that is less than the field count.
const int SIGN_WORKERS_MAX = 16;  // rows of the weight table
const int VOTE_WORKERS_MAX = 15;  // counters of four planes
// A lower switch sends counters of three planes: bmv2 lets a packet grow by 512 bytes, from two words to six.
const int VOTE_WORKERS_BELOW_MAX = 7;
// Workers of one job at one switch: the width of the contributors bitmap.
const int JOB_WORKERS_MAX = 32;
// Planes of a THC index on the way up.
const int THC_INDEX_PLANES = 4;
// A tensor's chunk number has 24 bits.
const int CHUNKS_MAX = 16777216;
// Tags: priorities (7 is the most urgent) and drop classes (3 is lost first).
const int PRIORITIES = 8;
const int DROP_CLASSES = 4;

const spray_t SPRAY_SLOT = 0;  // each slot goes to one of those above, or there are none
const bit<2> PHASE_OPEN = 0;
// cut, of a result: the bits that count missing planes.
const bit<8> CUT_PLANES = 0x7F;
// Each byte of the plane that stands for a missing plane; its complement stands for the one below.
const bit<8> CUT_FILL_BYTE = 0xAA;
