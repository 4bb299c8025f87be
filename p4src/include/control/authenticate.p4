// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The authentication tag of packets of jobs with a key (docs/security.md): checked before a packet reaches its slot, and
// computed for what the switch sends. It is SipHash-2-4 (Aumasson and Bernstein 2012) of the header, of a universal hash
// of the payload, and of the address of the switch that the packet is sent to or comes from. The universal hash is NH
// (Black, Halevi, Krawczyk, Krovetz and Rogaway 1999, for UMAC) on numbers of 64 bits: payload and key are cut into such
// numbers, and hash = the sum of (m0 + k0)(m1 + k1) + (m2 + k2)(m3 + k3) + ... modulo 2^128, where the sums in
// parentheses are taken modulo 2^64. Two payloads of one length have the same hash under one key of 2^64.

#ifndef SUMWIRE_AUTHENTICATE_P4_
#define SUMWIRE_AUTHENTICATE_P4_

#include "../headers.p4"
#include "../metadata.p4"

// The product of two numbers of a word and the key, and the sum of a word's products.
#define PRODUCT(word, key, a, b, c, d) \
    ((bit<128>)(word[a:b] + key[a:b]) * (bit<128>)(word[c:d] + key[c:d]))

#define NH(word, key) \
    (PRODUCT(word, key, 1023, 960, 959, 896) + PRODUCT(word, key, 895, 832, 831, 768) \
     + PRODUCT(word, key, 767, 704, 703, 640) + PRODUCT(word, key, 639, 576, 575, 512) \
     + PRODUCT(word, key, 511, 448, 447, 384) + PRODUCT(word, key, 383, 320, 319, 256) \
     + PRODUCT(word, key, 255, 192, 191, 128) + PRODUCT(word, key, 127, 64, 63, 0))

#define ROTATE(number, by) ((number << by) | (number >> (64 - by)))

#define SIP_ROUND \
    hdr.key.v0 = hdr.key.v0 + hdr.key.v1; \
    hdr.key.v2 = hdr.key.v2 + hdr.key.v3; \
    hdr.key.v1 = ROTATE(hdr.key.v1, 13) ^ hdr.key.v0; \
    hdr.key.v3 = ROTATE(hdr.key.v3, 16) ^ hdr.key.v2; \
    hdr.key.v0 = ROTATE(hdr.key.v0, 32) + hdr.key.v3; \
    hdr.key.v2 = hdr.key.v2 + hdr.key.v1; \
    hdr.key.v1 = ROTATE(hdr.key.v1, 17) ^ hdr.key.v2; \
    hdr.key.v3 = ROTATE(hdr.key.v3, 21) ^ hdr.key.v0; \
    hdr.key.v2 = ROTATE(hdr.key.v2, 32);

#define SIP_TAKE(number) \
    hdr.key.v3 = hdr.key.v3 ^ (number); \
    SIP_ROUND \
    SIP_ROUND \
    hdr.key.v0 = hdr.key.v0 ^ (number);

// The length of what is hashed, in bytes: header, hash and address. SipHash takes it in with the last bytes.
const bit<64> SIP_LENGTH = (bit<64>)(SUMWIRE_BYTES + 16 + 4) << 56;

// Leaves the tag of the packet's header and words in hdr.key.v0.
control Tag(inout headers_t hdr) {
    // An action of its own: in one with the rounds p4c puts expressions into one another until none fits its memory.
    @hidden action begin() {
        hdr.key.hash = 0;
        hdr.key.v0 = hdr.key.low ^ 0x736F6D6570736575;
        hdr.key.v1 = hdr.key.high ^ 0x646F72616E646F6D;
        hdr.key.v2 = hdr.key.low ^ 0x6C7967656E657261;
        hdr.key.v3 = hdr.key.high ^ 0x7465646279746573;
    }

    @hidden action hash_word0() {
        hdr.key.hash = hdr.key.hash + NH(WORD0, hdr.key.w0);
    }

    @hidden action hash_word1() {
        hdr.key.hash = hdr.key.hash + NH(WORD1, hdr.key.w1);
    }

    @hidden action hash_pair2() {
        hdr.key.hash = hdr.key.hash + NH(WORD2, hdr.key.w2);
        hdr.key.hash = hdr.key.hash + NH(WORD3, hdr.key.w3);
    }

    @hidden action hash_pair4() {
        hdr.key.hash = hdr.key.hash + NH(WORD4, hdr.key.w4);
        hdr.key.hash = hdr.key.hash + NH(WORD5, hdr.key.w5);
    }

    @hidden action hash_pair6() {
        hdr.key.hash = hdr.key.hash + NH(WORD6, hdr.key.w6);
        hdr.key.hash = hdr.key.hash + NH(WORD7, hdr.key.w7);
    }

    @hidden action finish() {
        SIP_TAKE(hdr.sumwire.version ++ hdr.sumwire.kind ++ hdr.sumwire.op ++ hdr.sumwire.job ++ hdr.sumwire.slot
                 ++ hdr.key.worker ++ hdr.sumwire.count)
        SIP_TAKE(hdr.sumwire.round ++ hdr.sumwire.contributors)
        SIP_TAKE(hdr.sumwire.flags ++ hdr.sumwire.words ++ hdr.sumwire.bucket ++ hdr.sumwire.cut ++ hdr.sumwire.chunk)
        SIP_TAKE(hdr.sumwire.token)
        SIP_TAKE(hdr.key.hash[127:64])
        SIP_TAKE(hdr.key.hash[63:0])
        SIP_TAKE(SIP_LENGTH | (bit<64>)hdr.key.address)
        hdr.key.v2 = hdr.key.v2 ^ 0xFF;
        SIP_ROUND
        SIP_ROUND
        SIP_ROUND
        SIP_ROUND
        hdr.key.v0 = hdr.key.v0 ^ hdr.key.v1 ^ hdr.key.v2 ^ hdr.key.v3;
    }

    apply {
        begin();
        if (hdr.word0.isValid()) {
            hash_word0();
            if (hdr.word1.isValid()) {
                hash_word1();
                if (hdr.pair2.isValid()) {
                    hash_pair2();
                    if (hdr.pair4.isValid()) {
                        hash_pair4();
                        if (hdr.pair6.isValid()) {
                            hash_pair6();
                        }
                    }
                }
            }
        }
        finish();
    }
}

// Applied to a packet before its slot sees it, and to what the switch replies. A REFUSED has no tag, since a switch
// without the job has no key.
control Authenticate(inout headers_t hdr, inout metadata_t meta) {
    Tag() tag;

    @hidden action from_worker() {
        hdr.key.address = meta.lookup_address;
        hdr.key.worker = hdr.sumwire.worker;
    }

    @hidden action from_above() {
        hdr.key.address = hdr.ipv4.src;
        hdr.key.worker = 0;
    }

    @hidden action going_up() {
        hdr.key.address = hdr.above.address;
        hdr.key.worker = hdr.above.worker;
    }

    @hidden action going_down() {
        hdr.key.address = meta.lookup_address;
        hdr.key.worker = 0;
    }

    @hidden action write() {
        hdr.auth.tag = hdr.key.v0;
        hdr.udp.len = hdr.udp.len + TAG_BYTES;
        hdr.ipv4.total_len = hdr.ipv4.total_len + TAG_BYTES;
        // Replicas need not copy it.
        hdr.key.setInvalid();
    }

    @hidden action refuse() {
        meta.reject = REJECT_TAG;
    }

    apply {
        if (hdr.key.isValid() && hdr.auth.isValid()) {
            if (meta.reply == REPLY_UP) {
                going_up();
            } else if (meta.reply != REPLY_NONE) {
                going_down();
            } else if (meta.traits & TRAIT_FROM_ABOVE != 0) {
                from_above();
            } else {
                from_worker();
            }
            tag.apply(hdr);
            if (meta.reply != REPLY_NONE) {
                write();
            } else if (hdr.key.v0 != hdr.auth.tag) {
                refuse();
            }
        } else if (hdr.auth.isValid() || hdr.sumwire.kind != KIND_REFUSED) {
            refuse();
        }
    }
}

#endif
