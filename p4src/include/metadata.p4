// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What the program knows about a packet besides its headers. All of it is 0 when a packet comes in.

#ifndef SUMWIRE_METADATA_P4_
#define SUMWIRE_METADATA_P4_

#include "types.p4"

// What the job's and the worker's table entries say.
struct admission_t {
    bit<32> generation;  // never reused, never 0: tells a slot's owner from every earlier one
    bit<32> digest;      // of the job's configuration
    slot_t slot;         // in the switch's registers: the job's base + the packet's slot
    bit<8> quorum;
    bit<16> group;       // multicast group of the job's workers
    bitmap_t worker_bit;
}

// The switch above, for the slot at hand. A root has none.
struct uplink_t {
    port_t port;
    mac_t mac;
    ipv4_t address;
    worker_t worker;      // this switch's seat there
    bitmap_t worker_bit;  // 1 << worker
    bit<1> sprays;        // rounds of a slot go to different switches above
    bit<16> selector;     // chooses the switch above: the slot, or a hash of slot and round
    bit<2> phase;         // of a slot whose quorum is in: PHASE_WAITING, on a root PHASE_CLOSED
}

// A slot's registers as they are, and after the verdict as they will be.
struct slot_state_t {
    bit<32> round;
    bitmap_t contributors;
    bit<8> count;    // what a host divides by
    bit<8> arrived;  // contributors at this switch, void ones too; outside a tree, and without void ones, the count
    bitmap_t voided; // contributors that have arrived and are not in the sum, see control/degrade.p4
    bit<8> flags;    // of the result, once closed
    bit<24> call;    // op and bucket of the packet that opened the round
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

// A comment begins with the files that write a field, and behind the arrow those that read it.
struct metadata_t {
    // parser, admission, uplink, slot -> sumwire, admission, slot, reply, refusal, accounting, virtual_queue.
    // Why the packet is refused, REJECT_*. REJECT_NONE while there is nothing against it.
    bit<8> reject;
    // slot, accounting -> aggregate, reply, accounting. What the slot makes of the packet, VERDICT_*.
    bit<8> verdict;

    // What kind of packet came in.
    // parser -> admission, uplink, slot. A RESULT, STALE or REFUSED of the switch above.
    bit<1> from_above;
    // parser -> admission, slot. Nothing to fold in: a PROBE, or of the switch above a STALE or REFUSED.
    bit<1> bare;
    // parser -> slot. It need not be of the slot's call: a HELLO, STALE or REFUSED.
    bit<1> any_call;
    // parser -> admission, thc, vote. A lower switch's partial result: sums or counters, not indices or signs.
    bit<1> partial;
    // parser, degrade -> uplink, slot, aggregate. A THC contribution with only its two top planes.
    bit<1> trimmed;

    // What is lost with it.
    // degrade, slot -> slot, aggregate. The contribution is void: it arrives, but the sum is without it.
    bit<1> voids;
    // parser, degrade -> slot. If this packet closes the slot, the result is cut to its top six planes.
    bit<1> cuts;
    // parser, degrade, slot -> slot, aggregate. The reply has six words of a THC result, not eight.
    bit<1> six_words;

    // What the verdict asks of the payload and of the reply.
    // slot -> aggregate. The two low planes of the result are made up.
    bit<1> fills;
    // slot -> slot, aggregate, reply. A partial result goes to the switch above.
    bit<1> goes_up;
    // slot -> aggregate. The payload is folded into the slot's.
    bit<1> folds;
    // slot -> slot, aggregate. The slot's registers change.
    bit<1> stores;
    // slot -> aggregate. With this packet the slot closes: its quorum is in, or it is flushed.
    bit<1> closes;
    // slot -> slot, aggregate, reply. A RESULT goes out.
    bit<1> answers;

    // Addresses.
    // forwarding -> sumwire, forwarding. The packet is for the aggregator.
    bit<1> to_switch;
    // reply, refusal -> sumwire, reply, checksum, virtual_queue. The switch made the packet, and fills in addresses and
    // checksum.
    bit<1> is_reply;
    // forwarding -> forwarding, reply. The aggregator's own.
    mac_t switch_mac;
    // forwarding -> forwarding, reply. The destination, for the tables.
    ipv4_t lookup_address;

    // Filled by the controls Admission, Uplink and Slot (and SUM32, which adds a flag), read by later ones.
    admission_t admission;
    uplink_t uplink;
    slot_state_t state;
}

#endif
