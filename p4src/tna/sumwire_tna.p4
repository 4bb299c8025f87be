// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Sumwire's switch program for Tofino 1 (TNA): a table of contents. Each line of apply is one file in include/control.
// docs/tofino.md says what it keeps of the slot protocol, and what it leaves out.

#include <core.p4>
#include <tna.p4>

#include "../include/sizes.p4"
#include "../include/types.p4"
#include "../include/headers.p4"
#include "include/sizes.p4"
#include "include/headers.p4"
#include "include/metadata.p4"
#include "include/parser.p4"
#include "include/deparser.p4"
#include "include/control/forwarding.p4"
#include "include/control/admission.p4"
#include "include/control/opening.p4"
#include "include/control/contributors.p4"
#include "include/control/verdict.p4"
#include "include/control/thc.p4"
#include "include/control/sign.p4"
#include "include/control/lanes.p4"
#include "include/control/reply.p4"
#include "include/control/accounting.p4"

control TnaIngress(inout tna_headers_t hdr,
                   inout tna_metadata_t meta,
                   in ingress_intrinsic_metadata_t ig_intr_md,
                   in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                   inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                   inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    TnaForwarding() forwarding;
    TnaAdmission() admission;
    TnaDraw() draw;
    TnaOpening() opening;
    TnaContributors() contributors;
    TnaVerdict() verdict;
    TnaThc() thc;
    TnaSign() sign;
    TnaLanes() lanes;
    TnaReply() reply;
    TnaAccounting() accounting;

    apply {
        if (hdr.lanes.isValid() && !meta.checksum_error &&
            ((hdr.planes.isValid() && hdr.ipv4.total_len == IPV4_BYTES + TNA_UDP_BYTES_THC) ||
             (!hdr.planes.isValid() && hdr.ipv4.total_len == IPV4_BYTES + TNA_UDP_BYTES_LANES))) {
            admission.apply(hdr, meta, ig_intr_md);
            draw.apply(hdr, meta);
        }
        if (meta.admitted == 1) {
            opening.apply(hdr, meta);
            contributors.apply(meta);
            verdict.apply(meta);
            thc.apply(hdr, meta);
            sign.apply(hdr, meta);
            lanes.apply(hdr, meta);
            reply.apply(hdr, meta, ig_intr_md, ig_dprsr_md, ig_tm_md);
            accounting.apply(meta);
        } else {
            forwarding.apply(meta, ig_dprsr_md, ig_tm_md);
        }
    }
}

control TnaEgress(inout tna_egress_headers_t hdr,
                  inout tna_egress_metadata_t meta,
                  in egress_intrinsic_metadata_t eg_intr_md,
                  in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                  inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                  inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    TnaReplyAddress() reply_address;

    apply {
        reply_address.apply(hdr, eg_intr_md);
    }
}

Pipeline(TnaIngressParser(), TnaIngress(), TnaIngressDeparser(),
         TnaEgressParser(), TnaEgress(), TnaEgressDeparser()) pipe;

Switch(pipe) main;
