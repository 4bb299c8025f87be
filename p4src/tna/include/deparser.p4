// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Deparsers. The IPv4 checksum of replies is made in egress, behind the last change of an address.

#ifndef SUMWIRE_TNA_DEPARSER_P4_
#define SUMWIRE_TNA_DEPARSER_P4_

#include "headers.p4"
#include "metadata.p4"

control TnaIngressDeparser(packet_out packet,
                           inout tna_headers_t hdr,
                           in tna_metadata_t meta,
                           in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    apply {
        packet.emit(hdr);
    }
}

control TnaEgressDeparser(packet_out packet,
                          inout tna_egress_headers_t hdr,
                          in tna_egress_metadata_t meta,
                          in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() ipv4_checksum;

    apply {
        hdr.ipv4.checksum = ipv4_checksum.update({
            hdr.ipv4.version_ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len, hdr.ipv4.id, hdr.ipv4.fragment,
            hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst});
        packet.emit(hdr);
    }
}

#endif
