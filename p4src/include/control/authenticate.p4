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
    key.v0 = key.v0 + key.v1; \
    key.v2 = key.v2 + key.v3; \
    key.v1 = ROTATE(key.v1, 13) ^ key.v0; \
    key.v3 = ROTATE(key.v3, 16) ^ key.v2; \
    key.v0 = ROTATE(key.v0, 32) + key.v3; \
    key.v2 = key.v2 + key.v1; \
    key.v1 = ROTATE(key.v1, 17) ^ key.v2; \
    key.v3 = ROTATE(key.v3, 21) ^ key.v0; \
    key.v2 = ROTATE(key.v2, 32);

#define SIP_TAKE(number) \
    key.v3 = key.v3 ^ (number); \
    SIP_ROUND \
    SIP_ROUND \
    key.v0 = key.v0 ^ (number);

// The length of what is hashed, in bytes: header, hash and address. SipHash takes it in with the last bytes.
const bit<64> SIP_LENGTH = (bit<64>)(SUMWIRE_BYTES + 16 + 4) << 56;

// Leaves the tag of the packet's header and words in key.v0.
control Tag(inout key_h key, in sumwire_h sumwire, in word_h word0, in word_h word1, in pair_h pair2, in pair_h pair4,
            in pair_h pair6) {
    // An action of its own: in one with the rounds p4c puts expressions into one another until none fits its memory.
    @hidden action begin() {
        key.hash = 0;
        key.v0 = key.low ^ 0x736F6D6570736575;
        key.v1 = key.high ^ 0x646F72616E646F6D;
        key.v2 = key.low ^ 0x6C7967656E657261;
        key.v3 = key.high ^ 0x7465646279746573;
    }

    @hidden action hash_word0() {
        key.hash = key.hash + NH(word0.bits, key.w0);
    }

    @hidden action hash_word1() {
        key.hash = key.hash + NH(word1.bits, key.w1);
    }

    @hidden action hash_pair2() {
        key.hash = key.hash + NH(pair2.first, key.w2);
        key.hash = key.hash + NH(pair2.second, key.w3);
    }

    @hidden action hash_pair4() {
        key.hash = key.hash + NH(pair4.first, key.w4);
        key.hash = key.hash + NH(pair4.second, key.w5);
    }

    @hidden action hash_pair6() {
        key.hash = key.hash + NH(pair6.first, key.w6);
        key.hash = key.hash + NH(pair6.second, key.w7);
    }

    @hidden action finish() {
        SIP_TAKE(sumwire.version ++ sumwire.kind ++ sumwire.op ++ sumwire.job ++ sumwire.slot
                 ++ key.worker ++ sumwire.count)
        SIP_TAKE(sumwire.round ++ sumwire.contributors)
        SIP_TAKE(sumwire.flags ++ sumwire.words ++ sumwire.bucket ++ sumwire.cut ++ sumwire.chunk)
        SIP_TAKE(sumwire.token)
        SIP_TAKE(key.hash[127:64])
        SIP_TAKE(key.hash[63:0])
        SIP_TAKE(SIP_LENGTH | (bit<64>)key.address)
        key.v2 = key.v2 ^ 0xFF;
        SIP_ROUND
        SIP_ROUND
        SIP_ROUND
        SIP_ROUND
        key.v0 = key.v0 ^ key.v1 ^ key.v2 ^ key.v3;
    }

    apply {
        begin();
        if (word0.isValid()) {
            hash_word0();
            if (word1.isValid()) {
                hash_word1();
                if (pair2.isValid()) {
                    hash_pair2();
                    if (pair4.isValid()) {
                        hash_pair4();
                        if (pair6.isValid()) {
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
// without the job has no key. The control takes all headers: it hashes or changes most of them.
control Authenticate(inout headers_t hdr, inout bit<32> reject, in bit<2> reply, in bit<16> traits, in ipv4_t address) {
    Tag() tag;

    @hidden action from_worker() {
        hdr.key.address = address;
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
        hdr.key.address = address;
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
        reject = REJECT_TAG;
    }

    apply {
        if (hdr.key.isValid() && hdr.auth.isValid()) {
            if (reply == REPLY_UP) {
                going_up();
            } else if (reply != REPLY_NONE) {
                going_down();
            } else if (traits & TRAIT_FROM_ABOVE != 0) {
                from_above();
            } else {
                from_worker();
            }
            tag.apply(hdr.key, hdr.sumwire, hdr.word0, hdr.word1, hdr.pair2, hdr.pair4, hdr.pair6);
            if (reply != REPLY_NONE) {
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
