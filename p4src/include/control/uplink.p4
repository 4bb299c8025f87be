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

control Uplink(inout headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    Mix32() mix;

    // Every switch computes the same hash of slot and round, so all contributions of a chunk meet at one switch above.
    @hidden action salt() {
        meta.scratch = ((bit<32>)hdr.sumwire.slot * SALT_SLOT) ^ (hdr.sumwire.round * SALT_ROUND);
    }

    @hidden action select_by_hash() {
        meta.selector = meta.scratch[15:0];
    }

    @id(ID_ACTION_TO_PARENT)
    @brief("Send up") @description("Port and addresses of the switch above, and this switch's seat there.")
    action to_parent(@id(1) port_t port, @id(2) mac_t mac, @id(3) ipv4_t address, @id(4) worker_t worker,
                     @id(5) bitmap_t worker_bit) {
        hdr.above.setValid();
        hdr.above.port = (bit<16>)port;
        hdr.above.mac = mac;
        hdr.above.address = address;
        hdr.above.worker = worker;
        hdr.above.worker_bit = worker_bit;
    }

    @id(ID_ACTION_IS_ROOT)
    @brief("Send nothing up") @description("No switch is above: this one's sums are the results.")
    action is_root() {
    }

    // Ternary: rows match the low bits of the selector, and so divide a job's slots among several switches above, or
    // its chunks one by one where the selector is a hash.
    @id(ID_TABLE_UPLINK)
    @brief("Switches above")
    @description("By job and selector: low bits of the slot, or a hash of slot and round. Most jobs need one row.")
    table uplink {
        key = {
            hdr.sumwire.job : exact @id(1) @name("job");
            meta.selector : ternary @id(2) @name("slot");
        }
        actions = {
            to_parent;
            @defaultonly is_root;
        }
        const default_action = is_root();
        size = JOBS_MAX;
    }

    apply {
        // A greeting's slots have one root whatever the round: it tells who greets there that others are further.
        if (meta.admission.sprays == SPRAY_HASH &&
            (hdr.sumwire.token == TOKEN_NONE || hdr.sumwire.token >= TOKENS_OF_RUNS)) {
            salt();
            mix.apply(meta.scratch);
            select_by_hash();
        }
        uplink.apply();
        if (meta.traits & (TRAIT_TRIMMED | TRAIT_FROM_ABOVE) != 0) {
            // Missing planes are made up at the root only.
            if (meta.traits & TRAIT_TRIMMED != 0 && hdr.above.isValid()) {
                meta.reject = REJECT_WORDS;
            } else if (meta.traits & TRAIT_FROM_ABOVE != 0 &&
                       (!hdr.above.isValid() || (bit<16>)standard_metadata.ingress_port != hdr.above.port ||
                        hdr.ipv4.src != hdr.above.address || hdr.ethernet.src != hdr.above.mac)) {
                meta.reject = REJECT_PARENT;
            }
        }
    }
}

#endif
