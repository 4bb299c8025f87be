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
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_len;
    bit<16> id;
    bit<2> flags;
    bit<1> more_fragments;
    bit<13> frag_offset;
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
}

// One word of payload. Each word is a header of its own, so that a packet carries as many as it needs.
header word_h {
    word_t bits;
}

struct headers_t {
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    udp_h udp;
    sumwire_h sumwire;
    word_h word0;
    word_h word1;
    word_h word2;
    word_h word3;
    word_h word4;
    word_h word5;
    word_h word6;
    word_h word7;
}

#endif
