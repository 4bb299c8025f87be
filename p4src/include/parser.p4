// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Parses ARP, IPv4, UDP and Sumwire. A malformed packet on Sumwire's port is not dropped here, since it may be ordinary
// traffic between hosts: meta.reject has the reason, what is not extracted stays payload, and ingress decides by the
// destination address.

#ifndef SUMWIRE_PARSER_P4_
#define SUMWIRE_PARSER_P4_

#include "headers.p4"
#include "metadata.p4"

parser SumwireParser(packet_in packet,
                     out headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        meta.reject = REJECT_NOT_SUMWIRE;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    // Fragments and packets with options are parsed no further: they are forwarded by their address.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.more_fragments,
                          hdr.ipv4.frag_offset, hdr.ipv4.protocol) {
            (4, 5, 0, 0, IP_PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            SUMWIRE_PORT: check_lengths;
            default: accept;
        }
    }

    // Frame, IPv4 and UDP agree, and there is room for the Sumwire header.
    state check_lengths {
        meta.reject = REJECT_LENGTH;
        bit<1> lengths_agree = (bit<1>)(
            standard_metadata.packet_length == (bit<32>)hdr.ipv4.total_len + ETHERNET_BYTES &&
            hdr.ipv4.total_len == hdr.udp.len + IPV4_BYTES &&
            hdr.udp.len >= UDP_BYTES + SUMWIRE_BYTES);
        transition select(lengths_agree) {
            1: parse_sumwire;
            default: accept;
        }
    }

    state parse_sumwire {
        packet.extract(hdr.sumwire);
        transition select(hdr.sumwire.version) {
            SUMWIRE_VERSION: check_kind;
            default: reject_version;
        }
    }

    state check_kind {
        transition select(hdr.sumwire.kind) {
            KIND_CONTRIBUTE: check_contribution;
            KIND_RESULT: check_result;
            KIND_PROBE: check_probe;
            KIND_STALE: check_notice;
            KIND_REFUSED: check_notice;
            default: reject_kind;
        }
    }

    state check_contribution {
        transition select(hdr.sumwire.op, hdr.sumwire.words) {
            (OP_THC, THC_WORDS_UP): check_payload;
            (OP_THC, THC_WORDS_PARTIAL): partial_payload;
            (OP_THC, THC_WORDS_TRIMMED): check_trimmed;
            (OP_MAX32, MAX32_WORDS): check_payload;
            (OP_SUM32, SUM32_WORDS): check_payload;
            (OP_SIGN, SIGN_WORDS): check_payload;
            (OP_VOTE, VOTE_WORDS_UP): check_payload;
            (OP_VOTE, VOTE_WORDS_PARTIAL): partial_payload;
            (OP_MIN32, MIN32_WORDS): check_payload;
            default: wrong_op_or_words;
        }
    }

    state check_result {
        meta.from_above = 1;
        transition select(hdr.sumwire.op, hdr.sumwire.words) {
            (OP_THC, THC_WORDS_DOWN): check_payload;
            (OP_THC, THC_WORDS_CUT): check_cut;
            (OP_MAX32, MAX32_WORDS): check_payload;
            (OP_SUM32, SUM32_WORDS): check_payload;
            (OP_SIGN, SIGN_WORDS): check_payload;
            (OP_VOTE, VOTE_WORDS_DOWN): check_payload;
            (OP_MIN32, MIN32_WORDS): check_payload;
            default: wrong_op_or_words;
        }
    }

    state check_probe {
        meta.bare = 1;
        transition select(hdr.sumwire.op, hdr.sumwire.words) {
            (OP_NONE, 0): hello_payload;
            default: check_no_words;
        }
    }

    state check_notice {
        meta.from_above = 1;
        meta.bare = 1;
        meta.any_call = 1;
        transition check_no_words;
    }

    state check_no_words {
        transition select(hdr.sumwire.op, hdr.sumwire.words) {
            (OP_THC, 0): check_payload;
            (OP_MAX32, 0): check_payload;
            (OP_SUM32, 0): check_payload;
            (OP_SIGN, 0): check_payload;
            (OP_VOTE, 0): check_payload;
            (OP_MIN32, 0): check_payload;
            default: wrong_op_or_words;
        }
    }

    state hello_payload {
        meta.any_call = 1;
        transition check_payload;
    }

    // A THC contribution has two words only if it says that it was trimmed.
    state check_trimmed {
        bit<1> says_so = hdr.sumwire.flags[3:3];
        transition select(says_so) {
            1: trimmed_payload;
            default: reject_words;
        }
    }

    state trimmed_payload {
        meta.trimmed = 1;
        meta.cuts = 1;
        meta.six_words = 1;
        transition check_payload;
    }

    state check_cut {
        bit<1> says_so = hdr.sumwire.cut[7:7];
        transition select(says_so) {
            1: cut_payload;
            default: reject_words;
        }
    }

    state cut_payload {
        meta.six_words = 1;
        transition check_payload;
    }

    state wrong_op_or_words {
        transition select(hdr.sumwire.op) {
            OP_THC: reject_words;
            OP_MAX32: reject_words;
            OP_SUM32: reject_words;
            OP_SIGN: reject_words;
            OP_VOTE: reject_words;
            OP_MIN32: reject_words;
            default: reject_op;
        }
    }

    state partial_payload {
        meta.partial = 1;
        transition check_payload;
    }

    state check_payload {
        // Where it does not fit, meta.reject is still REJECT_LENGTH.
        bit<1> payload_fits = (bit<1>)(
            hdr.udp.len == UDP_BYTES + SUMWIRE_BYTES + (bit<16>)hdr.sumwire.words * WORD_BYTES);
        transition select(payload_fits, hdr.sumwire.words) {
            (1, 0): parsed;
            (1, 1): parse_one_word;
            (1, 2): parse_two_words;
            (1, 4): parse_four_words;
            (1, 6): parse_six_words;
            (1, 8): parse_eight_words;
            default: accept;
        }
    }

    state parse_one_word {
        packet.extract(hdr.word0);
        transition parsed;
    }

    state parse_two_words {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        transition parsed;
    }

    state parse_four_words {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.word2);
        packet.extract(hdr.word3);
        transition parsed;
    }

    state parse_six_words {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.word2);
        packet.extract(hdr.word3);
        packet.extract(hdr.word4);
        packet.extract(hdr.word5);
        transition parsed;
    }

    state parse_eight_words {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.word2);
        packet.extract(hdr.word3);
        packet.extract(hdr.word4);
        packet.extract(hdr.word5);
        packet.extract(hdr.word6);
        packet.extract(hdr.word7);
        transition parsed;
    }

    state parsed {
        meta.reject = REJECT_NONE;
        transition accept;
    }

    state reject_version {
        meta.reject = REJECT_VERSION;
        transition accept;
    }

    state reject_kind {
        meta.reject = REJECT_KIND;
        transition accept;
    }

    state reject_op {
        meta.reject = REJECT_OP;
        transition accept;
    }

    state reject_words {
        meta.reject = REJECT_WORDS;
        transition accept;
    }
}

#endif
