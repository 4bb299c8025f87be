// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What is addressed to the aggregator: checks a packet, and has its slot come to a verdict. A step that has something
// against the packet writes the reason into meta.reject, and the steps after it are left out. The control hands on most
// headers and metadata, and so takes all.

#ifndef SUMWIRE_AGGREGATION_P4_
#define SUMWIRE_AGGREGATION_P4_

#include "../headers.p4"
#include "../metadata.p4"
#include "admission.p4"
#include "authenticate.p4"
#include "degrade.p4"
#include "slot.p4"
#include "uplink.p4"

// Control planes address tables by names that begin with `ingress`, whatever group of steps a table is in.
control Aggregation(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name(".ingress.admission")
    Admission() admission;
    @name(".ingress.uplink")
    Uplink() uplink;
    @name(".ingress.authenticate")
    Authenticate() authenticate;
    @name(".ingress.degrade")
    Degrade() degrade;
    @name(".ingress.slot")
    Slot() slot;

    apply {
        if (meta.destination.mac != 0 && hdr.ipv4.isValid()) {
            if (meta.reject == REJECT_NONE && hdr.sumwire.isValid() && standard_metadata.checksum_error == 0) {
                admission.apply(hdr.ethernet, hdr.ipv4, hdr.udp, hdr.sumwire, hdr.key, meta.reject,
                                meta.traits, meta.admission, meta.scratch, standard_metadata);
                if (meta.reject == REJECT_NONE) {
                    uplink.apply(hdr.ethernet, hdr.ipv4, hdr.sumwire, hdr.above, meta.reject, meta.traits,
                                 meta.admission, meta.scratch, standard_metadata);
                }
                if (meta.reject == REJECT_NONE && (hdr.auth.isValid() || hdr.key.isValid())) {
                    authenticate.apply(hdr, meta.reject, meta.reply, meta.traits, meta.destination.address);
                }
                if (meta.reject == REJECT_NONE) {
                    degrade.apply(hdr.sumwire, meta.traits, meta.scratch, hdr.above.isValid());
                    slot.apply(hdr, meta);
                }
            } else if (meta.reject == REJECT_NONE) {
                if (hdr.sumwire.isValid()) {
                    meta.reject = REJECT_CHECKSUM;
                } else {
                    meta.reject = REJECT_NOT_SUMWIRE;
                }
            }
        }
    }
}

#endif
