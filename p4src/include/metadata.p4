// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SUMWIRE_METADATA_P4_
#define SUMWIRE_METADATA_P4_

#include "types.p4"

// What the job's and the worker's table entries say (control/admission.p4).
struct admission_t {
    bit<32> generation;  // never reused, never 0: tells a slot's owner from every earlier one
    slot_t slot;         // in the switch's registers: the job's base + the packet's slot
    bit<8> quorum;
    bit<16> group;       // multicast group of the job's workers
    bitmap_t worker_bit;
}

// The switch above, of the slot at hand (control/uplink.p4). A root has none.
struct uplink_t {
    port_t port;
    mac_t mac;
    ipv4_t address;
    worker_t worker;      // this switch's number there
    bitmap_t worker_bit;  // 1 << worker
    bit<1> sprays;        // rounds of a slot go to different switches above
    bit<16> share;        // which switch above it is: the slot, or a hash of slot and round
    bit<2> phase;         // of a slot whose quorum is here: PHASE_WAITING, on a root PHASE_CLOSED
}

// What a slot's registers say, and after control/slot.p4 what they will say.
struct slot_state_t {
    bit<32> round;
    bitmap_t contributors;
    bit<8> count;    // what a host divides by
    bit<8> arrived;  // contributors at this switch, void ones too; else equals count but in a tree
    bitmap_t voided; // who has arrived and is not in the sum, see control/degrade.p4
    bit<8> flags;    // of the result, once closed
    bit<8> op;       // that opened the round
    bit<8> cut;      // planes missing, and CUT_RESULT
    bit<2> phase;
    bit<1> fresh;    // a new owner or a newer round: what the slot holds is to be overwritten
}

// A slot's payload, or a packet's: w0 is the first word on the wire.
struct payload_t {
    word_t w0;
    word_t w1;
    word_t w2;
    word_t w3;
    word_t w4;
    word_t w5;
    word_t w6;
    word_t w7;
}

struct metadata_t {
    bit<8> reject;       // REJECT_*, REJECT_NONE while there is nothing against the packet
    bit<8> verdict;      // VERDICT_*
    bit<1> from_above;   // a RESULT of the switch above
    bit<1> probe;        // a PROBE: asks, gives nothing
    bit<1> partial;      // THC, VOTE: the payload is sums or counters, not indices or signs
    bit<1> trimmed;      // a THC contribution of its two top planes
    bit<1> voids;        // a THC contribution that arrives, but does not count
    bit<1> cuts;         // a result that this packet brings about is cut
    bit<1> six_words;    // the packet has no room for all eight words of a result
    bit<1> fills;        // the two low planes of the result are made up
    bit<1> goes_up;      // a partial result goes to the switch above
    bit<1> folds;        // the payload is to be folded into the slot
    bit<1> stores;       // the slot changes
    bit<1> closes;       // the quorum is here, or the slot is flushed: the sum is complete
    bit<1> answers;      // a RESULT goes out
    bit<1> to_switch;    // addressed to the aggregator
    bit<1> is_reply;     // made by the switch: addresses and checksum are ours to fill
    mac_t switch_mac;
    ipv4_t lookup_address;
    admission_t admission;
    uplink_t uplink;
    slot_state_t state;
}

#endif
