// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// IPv4's header checksum, checked on the way in and filled in for replies. UDP's is 0, "not computed"
// (RFC 768, allowed over IPv4): a checksum over 1 KB of payload would cost the switch more than the sums themselves,
// and Ethernet's CRC covers every link.

#ifndef SUMWIRE_CHECKSUM_P4_
#define SUMWIRE_CHECKSUM_P4_

#include "headers.p4"
#include "metadata.p4"

// The fields are written out twice: P4 has no name for a list of fields that both externs would take.
control VerifyIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.sumwire.isValid(),
            { hdr.ipv4.version_ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len, hdr.ipv4.id,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol,
              hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control ComputeIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(meta.reply != REPLY_NONE,
            { hdr.ipv4.version_ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len, hdr.ipv4.id,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol,
              hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
