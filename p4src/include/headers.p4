// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Headers on the wire, in wire order. docs/wire-format.md says what each Sumwire field means.

#ifndef SUMWIRE_HEADERS_P4_
#define SUMWIRE_HEADERS_P4_

#include "types.p4"

header ethernet_h {
    mac_t dst;
    mac_t src;
    bit<16> ethertype;
}

header arp_h {
    bit<16> htype;
    bit<16> ptype;
    bit<8> hlen;
    bit<8> plen;
    bit<16> oper;
    mac_t sha;
    ipv4_t spa;
    mac_t tha;
    ipv4_t tpa;
}

header ipv4_h {
    bit<8> version_ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_len;
    bit<16> id;
    bit<16> fragment;  // reserved, "don't fragment", "more fragments" (one bit each), and the offset
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    ipv4_t src;
    ipv4_t dst;
}

header udp_h {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> len;
    bit<16> checksum;
}

header sumwire_h {
    bit<4> version;
    bit<4> kind;
    bit<8> op;
    job_t job;
    bit<16> slot;
    worker_t worker;
    bit<8> count;
    bit<32> round;
    bitmap_t contributors;
    bit<8> flags;
    bit<8> words;
    bit<16> bucket;
    bit<8> cut;  // of a result: planes missing; see CUT_*
    bit<24> chunk;
    token_t token;  // of the run
}

// Words of payload: 1, 2, 4, 6 or 8 of them. A packet has the headers that it needs, and no more headers than that
// takes: bmv2 pays for each one, also where it is invalid.
header word_h {
    word_t bits;
}

header pair_h {
    word_t first;
    word_t second;
}

// The payload of OP_JUMBO (control/jumbo.p4), a byte for each value.
header jumbo_h {
    wide_t w0; wide_t w1; wide_t w2; wide_t w3; wide_t w4; wide_t w5; wide_t w6; wide_t w7;
    wide_t w8; wide_t w9; wide_t w10; wide_t w11; wide_t w12; wide_t w13; wide_t w14; wide_t w15;
    wide_t w16; wide_t w17; wide_t w18; wide_t w19; wide_t w20; wide_t w21; wide_t w22; wide_t w23;
    wide_t w24; wide_t w25; wide_t w26; wide_t w27; wide_t w28; wide_t w29; wide_t w30; wide_t w31;
}

// Not on the wire: what is added to a word of that.
header wide_h {
    wide_t bits;
}

// The authentication tag, behind the payload (control/authenticate.p4). Packets of jobs without a key have none.
header auth_h {
    tag_t tag;
}

// Not on the wire: the job's key, and what the authentication tag is computed in. Of jobs without a key it is invalid.
header key_h {
    // Of the universal hash, for each word of the payload.
    word_t w0;
    word_t w1;
    word_t w2;
    word_t w3;
    word_t w4;
    word_t w5;
    word_t w6;
    word_t w7;
    // Of SipHash, and its state.
    bit<64> low;
    bit<64> high;
    bit<64> v0;
    bit<64> v1;
    bit<64> v2;
    bit<64> v3;
    bit<128> hash;     // of the payload
    ipv4_t address;    // of the switch that checks the packet, or that replies
    worker_t worker;   // 0 in replies, which may be for all
}

// Not on the wire: the switch above, for the slot at hand. A root has none, and then it is invalid and costs nothing.
header above_h {
    bit<16> port;
    mac_t mac;
    ipv4_t address;
    worker_t worker;      // this switch's seat there
    bitmap_t worker_bit;  // 1 << worker
}

struct headers_t {
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    udp_h udp;
    sumwire_h sumwire;
    word_h word0;
    word_h word1;
    pair_h pair2;
    pair_h pair4;
    pair_h pair6;
    jumbo_h jumbo;
    auth_h auth;
    above_h above;
    key_h key;
    wide_h addend;
}

#endif
