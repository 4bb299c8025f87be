// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Hosts send numbers, and nobody is answered: the switch counts them by their size. Bucket 0 has the zeros, bucket b the
// numbers from 2^(b-1) to 2^b - 1. Read the counts of the running switch with `register_read MyIngress.buckets`.

#include <core.p4>
#include <v1model.p4>

header message_h {
    bit<16> number;
}

struct metadata_t {
    bit<32> bucket;
    bit<32> count;
}

#include "around.p4"

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(17) buckets;

    action bucket(bit<32> number) {
        meta.bucket = number;
    }

    // The highest bit that is set, by the longest prefix of zeros.
    table sizes {
        key = {
            hdr.message.number : ternary;
        }
        actions = {
            bucket;
        }
        default_action = bucket(0);
        const entries = {
            0x8000 &&& 0x8000 : bucket(16);
            0x4000 &&& 0xC000 : bucket(15);
            0x2000 &&& 0xE000 : bucket(14);
            0x1000 &&& 0xF000 : bucket(13);
            0x0800 &&& 0xF800 : bucket(12);
            0x0400 &&& 0xFC00 : bucket(11);
            0x0200 &&& 0xFE00 : bucket(10);
            0x0100 &&& 0xFF00 : bucket(9);
            0x0080 &&& 0xFF80 : bucket(8);
            0x0040 &&& 0xFFC0 : bucket(7);
            0x0020 &&& 0xFFE0 : bucket(6);
            0x0010 &&& 0xFFF0 : bucket(5);
            0x0008 &&& 0xFFF8 : bucket(4);
            0x0004 &&& 0xFFFC : bucket(3);
            0x0002 &&& 0xFFFE : bucket(2);
            0x0001 &&& 0xFFFF : bucket(1);
        }
    }

    apply {
        if (hdr.message.isValid()) {
            sizes.apply();
            buckets.read(meta.count, meta.bucket);
            buckets.write(meta.bucket, meta.count + 1);
        }
        mark_to_drop(standard);
    }
}

V1Switch(MyParser(), NoChecksum(), MyIngress(), MyEgress(), NoChecksum(), MyDeparser()) main;
