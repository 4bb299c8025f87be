// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What the program knows about a packet besides its headers. All of it is 0 when a packet comes in. bmv2 clears each
// field for every packet and copies it for every replica, so yes and no share a field, and so do numbers that are never
// needed at the same time.

#ifndef SUMWIRE_METADATA_P4_
#define SUMWIRE_METADATA_P4_

#include "types.p4"

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
    // uplink, degrade, opening, guard, refusal, virtual_queue -> uplink, degrade, opening, sign, guard, refusal,
    // virtual_queue.
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
