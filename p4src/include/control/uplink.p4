// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The switch above, in a tree of switches: where a partial result goes, and where results may come from.
// A job without an entry has no switch above: this one is its root.

#ifndef SUMWIRE_UPLINK_P4_
#define SUMWIRE_UPLINK_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "mix.p4"

control Uplink(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    Mix32() mix;
    bit<32> hashed;

    // The same at every switch, whichever job's slots these are: all copies of a chunk meet at one switch above.
    action salt() {
        hashed = ((bit<32>)hdr.sumwire.slot * SALT_SLOT) ^ (hdr.sumwire.round * SALT_ROUND);
    }

    action share_by_hash() {
        meta.uplink.share = hashed[15:0];
    }

    action share_by_slot() {
        meta.uplink.share = hdr.sumwire.slot;
    }

    @id(0x01000017)
    action to_parent(@id(1) port_t port, @id(2) mac_t mac, @id(3) ipv4_t address, @id(4) worker_t worker,
                     @id(5) bitmap_t worker_bit) {
        meta.uplink.port = port;
        meta.uplink.mac = mac;
        meta.uplink.address = address;
        meta.uplink.worker = worker;
        meta.uplink.worker_bit = worker_bit;
        meta.uplink.phase = PHASE_WAITING;
    }

    @id(0x01000018)
    action is_root() {
        meta.uplink.phase = PHASE_CLOSED;
    }

    // The share is ternary: its low bits share a job's slots, or where it is a hash the chunks one by one, out among
    // several switches above.
    @id(0x02000009)
    table uplink {
        key = {
            hdr.sumwire.job : exact @id(1) @name("job");
            meta.uplink.share : ternary @id(2) @name("slot");
        }
        actions = {
            to_parent;
            @defaultonly is_root;
        }
        const default_action = is_root();
        size = JOBS_MAX;
    }

    apply {
        if (meta.uplink.sprays == 1) {
            salt();
            mix.apply(hashed);
            share_by_hash();
        } else {
            share_by_slot();
        }
        uplink.apply();
        // What is missing is filled in where the sum ends, or not at all.
        if (meta.trimmed == 1 && meta.uplink.phase != PHASE_CLOSED) {
            meta.reject = REJECT_WORDS;
        } else if (meta.from_above == 1 &&
            (meta.uplink.phase == PHASE_CLOSED || standard_metadata.ingress_port != meta.uplink.port ||
             hdr.ipv4.src != meta.uplink.address)) {
            meta.reject = REJECT_PARENT;
        }
    }
}

#endif
