// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The switch above, in a tree of switches: partial results go to it, and results come from it.
// A job without an entry has no switch above: this switch is its root.

#ifndef SUMWIRE_UPLINK_P4_
#define SUMWIRE_UPLINK_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
#include "mix.p4"

control Uplink(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    Mix32() mix;
    bit<32> hashed;

    // Every switch computes the same hash of slot and round, so all contributions of a chunk meet at one switch above.
    action salt() {
        hashed = ((bit<32>)hdr.sumwire.slot * SALT_SLOT) ^ (hdr.sumwire.round * SALT_ROUND);
    }

    action select_by_hash() {
        meta.uplink.selector = hashed[15:0];
    }

    action select_by_slot() {
        meta.uplink.selector = hdr.sumwire.slot;
    }

    @id(ID_ACTION_TO_PARENT)
    action to_parent(@id(1) port_t port, @id(2) mac_t mac, @id(3) ipv4_t address, @id(4) worker_t worker,
                     @id(5) bitmap_t worker_bit) {
        meta.uplink.port = port;
        meta.uplink.mac = mac;
        meta.uplink.address = address;
        meta.uplink.worker = worker;
        meta.uplink.worker_bit = worker_bit;
        meta.uplink.phase = PHASE_WAITING;
    }

    @id(ID_ACTION_IS_ROOT)
    action is_root() {
        meta.uplink.phase = PHASE_CLOSED;
    }

    // Ternary: rows match the low bits of the selector, and so divide a job's slots among several switches above, or
    // its chunks one by one where the selector is a hash.
    @id(ID_TABLE_UPLINK)
    table uplink {
        key = {
            hdr.sumwire.job : exact @id(1) @name("job");
            meta.uplink.selector : ternary @id(2) @name("slot");
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
            select_by_hash();
        } else {
            select_by_slot();
        }
        uplink.apply();
        // Missing planes are made up at the root only.
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
