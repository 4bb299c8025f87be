// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The payload as Tofino takes it. All other headers are those of p4src/include/headers.p4.

#ifndef SUMWIRE_TNA_HEADERS_P4_
#define SUMWIRE_TNA_HEADERS_P4_

#include "../../include/headers.p4"
#include "sizes.p4"

// 512 bits of payload: 16 elements, 512 signs, or 64 sums of THC, a byte each.
header lanes_h {
    bit<32> l0;
    bit<32> l1;
    bit<32> l2;
    bit<32> l3;
    bit<32> l4;
    bit<32> l5;
    bit<32> l6;
    bit<32> l7;
    bit<32> l8;
    bit<32> l9;
    bit<32> l10;
    bit<32> l11;
    bit<32> l12;
    bit<32> l13;
    bit<32> l14;
    bit<32> l15;
}

// THC's indices of 64 values: four planes, the most significant first, as on bmv2, in pieces of 32 bits.
header planes_h {
    bit<32> z3_0;
    bit<32> z3_1;
    bit<32> z2_0;
    bit<32> z2_1;
    bit<32> z1_0;
    bit<32> z1_1;
    bit<32> z0_0;
    bit<32> z0_1;
}

struct tna_headers_t {
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    udp_h udp;
    sumwire_h sumwire;
    planes_h planes;
    lanes_h lanes;
}

// Replies pass egress with these; the payload passes it unparsed.
struct tna_egress_headers_t {
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    sumwire_h sumwire;
}

#endif
