// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Every size of the program, once. `make p4` copies the constants to Python.

#ifndef SUMWIRE_SIZES_P4_
#define SUMWIRE_SIZES_P4_

// One word of payload: a plane of 1024 values, or 32 elements of 32 bits.
const int WORD_BITS = 1024;
const int WORD_BYTES = WORD_BITS / 8;
// Words of payload in a slot, and the most a packet carries. 8 words are 8 sum planes: sums up to 255.
const int SLOT_WORDS = 8;
const int ELEMENT_BITS = 32;

// Slots of all jobs together; a job gets a range of them.
const int SLOTS_TOTAL = 4096;
// Slots with room for packets of 8192 values: the first ones.
const int JUMBO_SLOTS = 512;
const int JOBS_MAX = 64;
const int WORKERS_MAX = 1024;
const int ROUTES_MAX = 1024;
// Hosts and lower switches, each at every port where its frames come in.
const int SOURCES_MAX = 4096;
const int AGGREGATORS_MAX = 16;
// What a job with a limit may send at once.
const int BUDGET_BURST_BYTES = 131072;
// Port numbers: egress_spec has 9 bits.
const int PORTS_MAX = 512;
// Virtual queues: a port's of packets without priority, and that of packets with one.
const int QUEUES_MAX = PORTS_MAX * 2;
// Cells of the counter queue_decisions: queue, drop class (2 bits), decision (2 bits).
const int QUEUE_CELLS = QUEUES_MAX * 16;

// Bytes on the wire; the headers are in headers.p4, their sum is tested.
const int ETHERNET_BYTES = 14;
const int IPV4_BYTES = 20;
const int UDP_BYTES = 8;
const int SUMWIRE_BYTES = 32;
// Behind the payload, in packets of jobs with a key.
const int TAG_BYTES = 8;
// A frame without payload.
const int BARE_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + SUMWIRE_BYTES;

#endif
