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

control Uplink(in ethernet_h ethernet, in ipv4_h ipv4, in sumwire_h sumwire, inout above_h above,
               inout bit<32> reject, in bit<16> traits, inout admission_t admission, inout scratch_t scratch,
               in standard_metadata_t standard_metadata) {
    Mix32() mix;

    // Every switch computes the same hash of slot and round, so all contributions of a chunk meet at one switch above.
    @hidden action salt() {
        scratch.value = ((bit<32>)sumwire.slot * SALT_SLOT) ^ (sumwire.round * SALT_ROUND);
    }

    @hidden action select_by_hash() {
        admission.selector = scratch.value[15:0];
    }

    @id(ID_ACTION_TO_PARENT)
    @brief("Send up") @description("Port and addresses of the switch above, and this switch's seat there.")
    action to_parent(@id(1) port_t port, @id(2) mac_t mac, @id(3) ipv4_t address, @id(4) worker_t worker,
                     @id(5) bitmap_t worker_bit) {
        above.setValid();
        above.port = (bit<16>)port;
        above.mac = mac;
        above.address = address;
        above.worker = worker;
        above.worker_bit = worker_bit;
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
            sumwire.job : exact @id(1) @name("job");
            admission.selector : ternary @id(2) @name("slot");
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
        if (admission.sprays == SPRAY_HASH &&
            (sumwire.token == TOKEN_NONE || sumwire.token >= TOKENS_OF_RUNS)) {
            salt();
            mix.apply(scratch.value);
            select_by_hash();
        }
        uplink.apply();
        if (traits & (TRAIT_TRIMMED | TRAIT_FROM_ABOVE) != 0) {
            // Missing planes are made up at the root only.
            if (traits & TRAIT_TRIMMED != 0 && above.isValid()) {
                reject = REJECT_WORDS;
            } else if (traits & TRAIT_FROM_ABOVE != 0 &&
                       (!above.isValid() || (bit<16>)standard_metadata.ingress_port != above.port ||
                        ipv4.src != above.address || ethernet.src != above.mac)) {
                reject = REJECT_PARENT;
            }
        }
    }
}

#endif
