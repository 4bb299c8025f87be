// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What the program knows about a packet besides its headers. All of it is 0 when a packet comes in. bmv2 clears each
// field for every packet and copies it for every replica, so yes and no share a field, and so do numbers that are never
// needed at the same time.

#ifndef SUMWIRE_METADATA_P4_
#define SUMWIRE_METADATA_P4_

#include "state.p4"
#include "types.p4"

// What the switch makes of the packet, and so who fills in the receiver's address.
const bit<2> REPLY_NONE = 0;
const bit<2> REPLY_TO_WORKER = 1;  // to one or to all of the job: the table `replica`, in egress
const bit<2> REPLY_UP = 2;         // to the switch above
const bit<2> REPLY_REFUSED = 3;    // to the sender, whoever that is

// Where a packet goes that comes in. If that is the aggregator, replies come from there.
struct destination_t {
    ipv4_t address;
    mac_t mac;  // the aggregator's; 0 while the packet is not for the aggregator
}

// What the job's and the worker's table entries say.
struct admission_t {
    opening_t opening;  // owner (the job's generation: never reused, never 0), token, round and call of the packet
    bit<32> digest;     // of the job's configuration
    slot_t slot;        // in the switch's registers: the job's base + the packet's slot
    bit<8> quorum;
    bit<16> group;      // multicast group of the job's workers
    bitmap_t worker_bit;
    bit<16> selector;   // chooses the switch above: the slot, or a hash. For the parser, whether lengths agree
    spray_t sprays;
}

// What one control after another computes in. None finds what another one left.
struct scratch_t {
    bit<32> value;   // an address, a port, a hash, a probability, or how far a round is ahead
    bit<48> passed;  // us since the last packet of a job with a limit, the last refusal, or the last packet at the port
    bit<64> number;  // what a job with a limit has used up, the port's backlog, or the seed of the generator
    bit<40> chosen;  // what happens to packets that are hit, DEGRADE_* (8 bits), and the share of these, of 2^16
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

// A comment begins with the files that write a field, and behind the arrow those that read it.
struct metadata_t {
    // parser, forwarding, aggregation, admission, uplink, authenticate, opening, guard -> aggregation, answer,
    // admission, slot, guard, refusal. Why the packet is refused, REJECT_*, an index of a counter. REJECT_NONE while
    // there is nothing against it.
    bit<32> reject;
    // join, verdict, guard -> reply, accounting. What the slot makes of the packet, VERDICT_*, an index of a counter.
    bit<32> verdict;
    // parser, degrade, opening, verdict, loss -> admission, uplink, authenticate, degrade, opening, slot, join, verdict,
    // loss, aggregate, jumbo. See TRAIT_*.
    bit<16> traits;
    // join, verdict, loss, sum32 -> answer, slot, join, verdict, loss, aggregate, jumbo, sum32, reply. See EFFECT_*.
    bit<8> effects;
    // reply, refusal -> reply, authenticate, checksum, virtual_queue. See REPLY_*. The switch made the packet, and fills
    // in addresses and checksum.
    bit<2> reply;
    // parser, forwarding -> aggregation, forwarding, authenticate, guard, reply. See above.
    destination_t destination;
    // verdict -> opening, verdict. What the switch knows of the job's run, which opening reads. Then the slot's state
    // as it will be if the packet is folded in, where that is not a usual contribution.
    state_t joined;
    // admission, uplink, degrade, mix, opening, sign, guard, refusal, virtual_queue -> admission, uplink, degrade, mix,
    // opening, sign, guard, refusal, virtual_queue.
    scratch_t scratch;

    // Filled by the controls Admission, Slot and Aggregate, read by later ones.
    admission_t admission;
    // The slot's state as it is, and after the verdict as it will be.
    state_t state;
    // The payload that goes into the slot, and into a reply.
    payload_t sum;
}

#endif
