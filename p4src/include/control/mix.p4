// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A hash of 32 bits that every switch and every test can compute: the finalizer of MurmurHash3 (Appleby 2011).

#ifndef SUMWIRE_MIX_P4_
#define SUMWIRE_MIX_P4_

// Odd factors for slot, round and worker, so that they do not cancel each other in the XOR that is hashed.
const bit<32> SALT_SLOT = 0x9E3779B1;
const bit<32> SALT_ROUND = 0x85EBCA77;
const bit<32> SALT_WORKER = 0xC2B2AE3D;

control Mix32(inout bit<32> x) {
    @hidden action mix() {
        x = x ^ (x >> 16);
        x = x * 0x85EBCA6B;
        x = x ^ (x >> 13);
        x = x * 0xC2B2AE35;
        x = x ^ (x >> 16);
    }

    apply {
        mix();
    }
}

#endif
