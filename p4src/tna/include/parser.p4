// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Ingress parser: ARP, IPv4, UDP and Sumwire. What is no contribution of an op that this program has stays payload, and
// is forwarded by its address; the aggregator's address has no route, so what is wrong and for the aggregator is dropped.

#ifndef SUMWIRE_TNA_PARSER_P4_
#define SUMWIRE_TNA_PARSER_P4_

#include "headers.p4"
#include "metadata.p4"

// IPv4 without options.
const bit<8> TNA_VERSION_IHL = 0x45;
// "More fragments" and the offset.
const bit<16> TNA_FRAGMENT_MASK = 0x3FFF;

parser TnaIngressParser(packet_in packet,
                        out tna_headers_t hdr,
                        out tna_metadata_t meta,
                        out ingress_intrinsic_metadata_t ig_intr_md) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        transition init;
    }

    state init {
        meta.lookup_address = 0;
        meta.checksum_error = false;
        meta.admitted = 0;
        meta.verdict = 0;
        meta.lane_op = LANE_IDLE;
        meta.fold = LANE_ADD;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        meta.lookup_address = hdr.arp.tpa;
        transition accept;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        ipv4_checksum.add(hdr.ipv4);
        meta.checksum_error = ipv4_checksum.verify();
        meta.lookup_address = hdr.ipv4.dst;
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (TNA_VERSION_IHL, 0 &&& TNA_FRAGMENT_MASK, IP_PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    // The parser looks at 32 bits at a time. Ingress asks whether IPv4 agrees on the length. The frame's own is not known;
    // what is too short is a parser error.
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port, hdr.udp.len) {
            (SUMWIRE_PORT, TNA_UDP_BYTES_THC): parse_thc;
            (SUMWIRE_PORT, TNA_UDP_BYTES_LANES): parse_full;
            default: accept;
        }
    }

    state parse_thc {
        packet.extract(hdr.sumwire);
        transition select(hdr.sumwire.version, hdr.sumwire.kind, hdr.sumwire.op, hdr.sumwire.words) {
            (SUMWIRE_VERSION, KIND_CONTRIBUTE, OP_THC, THC_WORDS_UP): parse_planes;
            default: accept;
        }
    }

    state parse_full {
        packet.extract(hdr.sumwire);
        transition select(hdr.sumwire.version, hdr.sumwire.kind, hdr.sumwire.op, hdr.sumwire.words) {
            (SUMWIRE_VERSION, KIND_CONTRIBUTE, OP_MAX32, TNA_MAX32_WORDS): parse_maxima;
            (SUMWIRE_VERSION, KIND_CONTRIBUTE, OP_SUM32, SUM32_WORDS): parse_lanes;
            (SUMWIRE_VERSION, KIND_CONTRIBUTE, OP_SIGN, SIGN_WORDS): parse_lanes;
            default: accept;
        }
    }

    // The table values will be in the lanes.
    state parse_planes {
        packet.extract(hdr.planes);
        hdr.lanes.setValid();
        transition accept;
    }

    state parse_maxima {
        meta.fold = LANE_MAX;
        transition parse_lanes;
    }

    state parse_lanes {
        packet.extract(hdr.lanes);
        transition accept;
    }
}

// Egress sees replies alone: what is forwarded passes it by.
parser TnaEgressParser(packet_in packet,
                       out tna_egress_headers_t hdr,
                       out tna_egress_metadata_t meta,
                       out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        packet.extract(hdr.sumwire);
        transition accept;
    }
}

#endif
