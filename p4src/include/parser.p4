// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Parses ARP, IPv4, UDP and Sumwire. A malformed packet on Sumwire's port is not dropped here, since it may be ordinary
// traffic between hosts: meta.reject has the reason, what is not extracted stays payload, and ingress decides by the
// destination address. A packet that is no Sumwire packet at all has no header `sumwire` and no reason yet.

#ifndef SUMWIRE_PARSER_P4_
#define SUMWIRE_PARSER_P4_

#include "headers.p4"
#include "metadata.p4"

// IPv4 without options.
const bit<8> PLAIN_VERSION_IHL = 0x45;
// "More fragments" and the offset.
const bit<16> FRAGMENT_MASK = 0x3FFF;
// A datagram of so many words, with its UDP header, and its frame.
const bit<16> UDP_BYTES_OF_0 = UDP_BYTES + SUMWIRE_BYTES;
const bit<16> UDP_BYTES_OF_1 = UDP_BYTES_OF_0 + 1 * WORD_BYTES;
const bit<16> UDP_BYTES_OF_2 = UDP_BYTES_OF_0 + 2 * WORD_BYTES;
const bit<16> UDP_BYTES_OF_4 = UDP_BYTES_OF_0 + 4 * WORD_BYTES;
const bit<16> UDP_BYTES_OF_6 = UDP_BYTES_OF_0 + 6 * WORD_BYTES;
const bit<16> UDP_BYTES_OF_8 = UDP_BYTES_OF_0 + 8 * WORD_BYTES;
const bit<16> UDP_BYTES_OF_64 = UDP_BYTES_OF_0 + 64 * WORD_BYTES;
const bit<32> FRAME_BYTES_OF_1 = BARE_BYTES + 1 * WORD_BYTES;
const bit<32> FRAME_BYTES_OF_4 = BARE_BYTES + 4 * WORD_BYTES;

// Lines of selects, for each element-wise op.
#define CONTRIBUTED(op) (SUMWIRE_VERSION, KIND_CONTRIBUTE, op, ELEMENTWISE_WORDS, UDP_BYTES_OF_1): parse_one_word;
#define WHOLE(op) (op, ELEMENTWISE_WORDS): check_payload;
#define BARE(op) (op, 0): check_payload;
#define KNOWN(op) op: reject_words;

parser SumwireParser(packet_in packet,
                     out headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        // Unless something decides otherwise: by default a packet would leave by port 0.
        standard_metadata.egress_spec = DROP_PORT;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        meta.destination.address = hdr.arp.tpa;
        transition accept;
    }

    // Fragments and packets with options are parsed no further: they are forwarded by their address.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        meta.destination.address = hdr.ipv4.dst;
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (PLAIN_VERSION_IHL, 0 &&& FRAGMENT_MASK, IP_PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    // Frame, IPv4 and UDP must agree, and there must be room for the Sumwire header. For the most frequent lengths, of
    // THC and of norms, that takes no arithmetic.
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port, hdr.udp.len, hdr.ipv4.total_len, standard_metadata.packet_length) {
            (SUMWIRE_PORT, UDP_BYTES_OF_4, IPV4_BYTES + UDP_BYTES_OF_4, FRAME_BYTES_OF_4): parse_sumwire;
            (SUMWIRE_PORT, UDP_BYTES_OF_1, IPV4_BYTES + UDP_BYTES_OF_1, FRAME_BYTES_OF_1): parse_sumwire;
            (SUMWIRE_PORT, _, _, _): check_lengths;
            default: accept;
        }
    }

    state check_lengths {
        meta.admission.selector = (bit<16>)(bit<1>)(
            standard_metadata.packet_length == (bit<32>)hdr.ipv4.total_len + ETHERNET_BYTES &&
            hdr.ipv4.total_len == hdr.udp.len + IPV4_BYTES &&
            hdr.udp.len >= UDP_BYTES + SUMWIRE_BYTES);
        transition select(meta.admission.selector) {
            1: parse_sumwire;
            default: reject_length;
        }
    }

    // What a host contributes, at one glance; everything else is asked one question after another.
    state parse_sumwire {
        packet.extract(hdr.sumwire);
        transition select(hdr.sumwire.version, hdr.sumwire.kind, hdr.sumwire.op, hdr.sumwire.words, hdr.udp.len) {
            (SUMWIRE_VERSION, KIND_CONTRIBUTE, OP_THC, THC_WORDS_UP, UDP_BYTES_OF_4): parse_four_words;
            ELEMENTWISE_OPS(CONTRIBUTED)
            (SUMWIRE_VERSION, KIND_CONTRIBUTE, OP_SUM32, SUM32_WORDS, UDP_BYTES_OF_8): parse_eight_words;
            (SUMWIRE_VERSION, KIND_CONTRIBUTE, OP_SIGN, SIGN_WORDS, UDP_BYTES_OF_8): parse_eight_words;
            (SUMWIRE_VERSION, KIND_CONTRIBUTE, OP_VOTE, VOTE_WORDS_UP, UDP_BYTES_OF_2): parse_two_words;
            (SUMWIRE_VERSION, KIND_CONTRIBUTE, OP_JUMBO, JUMBO_WORDS, UDP_BYTES_OF_64): parse_jumbo;
            default: check_version;
        }
    }

    state check_version {
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
            ELEMENTWISE_OPS(WHOLE)
            (OP_SUM32, SUM32_WORDS): check_payload;
            (OP_SIGN, SIGN_WORDS): check_payload;
            (OP_VOTE, VOTE_WORDS_UP): check_payload;
            (OP_VOTE, VOTE_WORDS_PARTIAL): partial_payload;
            (OP_JUMBO, JUMBO_WORDS): check_jumbo;
            default: wrong_op_or_words;
        }
    }

    state check_result {
        meta.traits = TRAIT_FROM_ABOVE;
        transition select(hdr.sumwire.op, hdr.sumwire.words) {
            (OP_THC, THC_WORDS_DOWN): check_payload;
            (OP_THC, THC_WORDS_CUT): check_cut;
            ELEMENTWISE_OPS(WHOLE)
            (OP_SUM32, SUM32_WORDS): check_payload;
            (OP_SIGN, SIGN_WORDS): check_payload;
            (OP_VOTE, VOTE_WORDS_DOWN): check_payload;
            (OP_JUMBO, JUMBO_WORDS): check_jumbo;
            default: wrong_op_or_words;
        }
    }

    state check_probe {
        meta.traits = TRAIT_BARE;
        transition select(hdr.sumwire.op, hdr.sumwire.words) {
            (OP_NONE, 0): hello_payload;
            default: check_no_words;
        }
    }

    state check_notice {
        meta.traits = TRAIT_FROM_ABOVE | TRAIT_BARE | TRAIT_ANY_CALL;
        transition check_no_words;
    }

    state check_no_words {
        transition select(hdr.sumwire.op, hdr.sumwire.words) {
            (OP_THC, 0): check_payload;
            ELEMENTWISE_OPS(BARE)
            (OP_SUM32, 0): check_payload;
            (OP_SIGN, 0): check_payload;
            (OP_VOTE, 0): check_payload;
            (OP_JUMBO, 0): check_payload;
            default: wrong_op_or_words;
        }
    }

    state hello_payload {
        meta.traits = TRAIT_BARE | TRAIT_ANY_CALL;
        transition check_payload;
    }

    // A THC contribution has two words only if it says that it was trimmed.
    state check_trimmed {
        transition select(hdr.sumwire.flags) {
            FLAG_TRIMMED &&& FLAG_TRIMMED: trimmed_payload;
            default: reject_words;
        }
    }

    state trimmed_payload {
        meta.traits = TRAIT_TRIMMED | TRAIT_CUTS | TRAIT_SIX_WORDS;
        transition check_payload;
    }

    state check_cut {
        transition select(hdr.sumwire.cut) {
            CUT_RESULT &&& CUT_RESULT: cut_payload;
            default: reject_words;
        }
    }

    state cut_payload {
        meta.traits = TRAIT_FROM_ABOVE | TRAIT_SIX_WORDS;
        transition check_payload;
    }

    state wrong_op_or_words {
        transition select(hdr.sumwire.op) {
            OP_THC: reject_words;
            ELEMENTWISE_OPS(KNOWN)
            OP_SUM32: reject_words;
            OP_SIGN: reject_words;
            OP_VOTE: reject_words;
            OP_JUMBO: reject_words;
            default: reject_op;
        }
    }

    state partial_payload {
        meta.traits = TRAIT_PARTIAL;
        transition check_payload;
    }

    state check_payload {
        transition select(hdr.sumwire.words, hdr.udp.len) {
            (0, UDP_BYTES_OF_0): accept;
            (1, UDP_BYTES_OF_1): parse_one_word;
            (2, UDP_BYTES_OF_2): parse_two_words;
            (4, UDP_BYTES_OF_4): parse_four_words;
            (6, UDP_BYTES_OF_6): parse_six_words;
            (8, UDP_BYTES_OF_8): parse_eight_words;
            (0, UDP_BYTES_OF_0 + TAG_BYTES): parse_tag;
            (1, UDP_BYTES_OF_1 + TAG_BYTES): parse_one_and_tag;
            (2, UDP_BYTES_OF_2 + TAG_BYTES): parse_two_and_tag;
            (4, UDP_BYTES_OF_4 + TAG_BYTES): parse_four_and_tag;
            (6, UDP_BYTES_OF_6 + TAG_BYTES): parse_six_and_tag;
            (8, UDP_BYTES_OF_8 + TAG_BYTES): parse_eight_and_tag;
            default: reject_length;
        }
    }

    state parse_one_word {
        packet.extract(hdr.word0);
        transition accept;
    }

    state parse_two_words {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        transition accept;
    }

    state parse_four_words {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.pair2);
        transition accept;
    }

    state parse_six_words {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.pair2);
        packet.extract(hdr.pair4);
        transition accept;
    }

    state parse_eight_words {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.pair2);
        packet.extract(hdr.pair4);
        packet.extract(hdr.pair6);
        transition accept;
    }

    // So long packets have no tag.
    state check_jumbo {
        transition select(hdr.udp.len) {
            UDP_BYTES_OF_64: parse_jumbo;
            default: reject_length;
        }
    }

    state parse_jumbo {
        packet.extract(hdr.jumbo);
        transition accept;
    }

    // Packets of jobs with a key are 8 bytes longer.
    state parse_one_and_tag {
        packet.extract(hdr.word0);
        packet.extract(hdr.auth);
        transition accept;
    }

    state parse_two_and_tag {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.auth);
        transition accept;
    }

    state parse_four_and_tag {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.pair2);
        packet.extract(hdr.auth);
        transition accept;
    }

    state parse_six_and_tag {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.pair2);
        packet.extract(hdr.pair4);
        packet.extract(hdr.auth);
        transition accept;
    }

    state parse_eight_and_tag {
        packet.extract(hdr.word0);
        packet.extract(hdr.word1);
        packet.extract(hdr.pair2);
        packet.extract(hdr.pair4);
        packet.extract(hdr.pair6);
        packet.extract(hdr.auth);
        transition accept;
    }

    state parse_tag {
        packet.extract(hdr.auth);
        transition accept;
    }

    state reject_length {
        meta.reject = REJECT_LENGTH;
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
