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

// What the job's and the worker's table entries say.
struct admission_t {
    opening_t opening;  // owner (the job's generation: never reused, never 0), token, round and call of the packet
    bit<32> digest;     // of the job's configuration
    slot_t slot;        // in the switch's registers: the job's base + the packet's slot
    bit<8> quorum;
    bit<16> group;      // multicast group of the job's workers
    bitmap_t worker_bit;
    spray_t sprays;
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
    // admission, slot, guard, refusal. Why the packet is refused, REJECT_*, an index of a counter. REJECT_NONE while there is nothing against it.
    bit<32> reject;
    // join, verdict, guard -> reply, accounting. What the slot makes of the packet, VERDICT_*, an index of a counter.
    bit<32> verdict;
    // parser, degrade, opening, verdict, loss -> admission, uplink, authenticate, degrade, opening, slot, join, verdict,
    // loss, aggregate, jumbo, vote. See TRAIT_*.
    bit<16> traits;
    // join, verdict, loss, sum32 -> answer, slot, join, verdict, loss, aggregate, jumbo, sum32, reply. See EFFECT_*.
    bit<8> effects;
    // reply, refusal -> reply, authenticate, checksum, virtual_queue. See REPLY_*. The switch made the packet, and fills
    // in addresses and checksum.
    bit<2> reply;
    // forwarding -> aggregation, forwarding, guard, reply. The aggregator's own. 0 while the packet is not for the
    // aggregator.
    mac_t switch_mac;
    // parser -> forwarding, authenticate, guard, reply. The destination, for the tables.
    ipv4_t lookup_address;
    // parser, admission, uplink -> parser, uplink. Chooses the switch above: the slot, or a hash of slot and round.
    // Before that, whether lengths agree.
    bit<16> selector;
    // verdict -> opening, verdict. What the switch knows of the job's run, which opening reads. Then the slot's state as it
    // will be if the packet is folded in, where that is not a usual contribution.
    state_t joined;
    // uplink, degrade, mix, opening, sign, guard, refusal, virtual_queue -> uplink, degrade, mix, opening, sign, guard,
    // refusal, virtual_queue.
    // What one control after another computes with. None finds what another one left.
    bit<32> scratch;
    // admission, refusal, virtual_queue -> admission, refusal, virtual_queue. The time since the last packet of a job with
    // a limit, or since the last refusal or packet at the port, in us.
    bit<48> passed;
    // degrade -> degrade. What happens to packets that are hit, DEGRADE_* (8 bits), and the share of these, of 2^16.
    bit<40> degrade;
    // admission, virtual_queue -> admission, sign, virtual_queue. What a job with a limit has used up, the seed of the
    // generator, or the backlog of the port's virtual queue.
    bit<64> number;

    // Filled by the controls Admission, Slot and Aggregate, read by later ones.
    admission_t admission;
    // The slot's state as it is, and after the verdict as it will be.
    state_t state;
    // The payload that goes into the slot, and into a reply.
    payload_t sum;
}

#endif
