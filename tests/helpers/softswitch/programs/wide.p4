// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Wide words, registers, every arithmetic operator, conditions inside actions, random, hash, action data of 1024 bits.
#include <core.p4>
#include <v1model.p4>

typedef bit<1024> word_t;

header request_t {
    bit<8> op;
    bit<8> index;
    bit<16> small;
    bit<32> result;
}
header words_t { word_t a; word_t b; }

struct metadata { word_t x; word_t y; bit<16> h; bit<32> r; int<16> s; }
struct headers { request_t request; words_t words; }

parser parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.op) {
            0 .. 31: with_words;
            default: accept;
        }
    }
    state with_words {
        packet.extract(hdr.words);
        transition accept;
    }
}

control verify_sums(inout headers hdr, inout metadata meta) { apply { } }

control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    register<word_t>(4) store;
    register<bit<16>>(4) count;

    action add() { hdr.words.a = hdr.words.a + hdr.words.b; }
    action sub() { hdr.words.a = hdr.words.a - hdr.words.b; }
    action mul() { hdr.words.a = hdr.words.a * hdr.words.b; }
    action invert() { hdr.words.a = ~hdr.words.a; }
    action negate() { hdr.words.a = -hdr.words.a; }
    action logic() { hdr.words.a = (hdr.words.a & ~hdr.words.b) ^ (hdr.words.a | hdr.words.b); }
    action shift_left() { hdr.words.a = hdr.words.a << hdr.request.index; }
    action shift_right() { hdr.words.a = hdr.words.a >> hdr.request.index; }
    action slice() { hdr.words.a[63:32] = hdr.words.b[31:0]; }
    action join() { hdr.words.a = hdr.words.b[511:0] ++ hdr.words.a[1023:512]; }
    action saturate() {
        hdr.words.a = hdr.words.a |+| hdr.words.b;
        hdr.request.small = hdr.request.small |-| 100;
    }
    action choose() { hdr.words.a = hdr.words.a > hdr.words.b ? hdr.words.a : hdr.words.b; }
    action signed() {
        meta.s = (int<16>) hdr.request.small;
        meta.s = meta.s >> 2;
        hdr.request.result = (bit<32>) (int<32>) meta.s;
        if (meta.s < 0) {
            hdr.request.index = 1;
        } else if (meta.s == 0) {
            hdr.request.index = 2;
        } else {
            hdr.request.index = 3;
        }
    }
    action accumulate() {
        bit<32> i = (bit<32>) hdr.request.index;
        word_t old;
        bit<16> n;
        store.read(old, i);
        hdr.words.a = old + hdr.words.a;
        store.write(i, hdr.words.a);
        count.read(n, i);
        if (n == 2) {
            return;
        }
        count.write(i, n + 1);
        hdr.request.small = n;
    }
    action draw() { random(meta.r, (bit<32>) 10, (bit<32>) 20); hdr.request.result = meta.r; }
    action crc16_of() { hash(meta.h, HashAlgorithm.crc16, 16w0, { hdr.request.op, hdr.request.index }, 32w0x10000); hdr.request.result = (bit<32>) meta.h; }
    action crc32_of() { hash(hdr.request.result, HashAlgorithm.crc32, 32w0, { hdr.request.op, hdr.request.index }, 64w0x100000000); }
    action csum_of() { hash(meta.h, HashAlgorithm.csum16, 16w5, { hdr.request.op, hdr.request.index, hdr.request.small }, 32w1000); hdr.request.result = (bit<32>) meta.h; }
    action early() {
        hdr.request.result = 1;
        if (hdr.request.index == 1) {
            return;
        }
        hdr.request.result = 2;
        if (hdr.request.index == 2) {
            hdr.request.small = 7;
            exit;
        }
        hdr.request.result = 3;
    }
    action select_words(word_t c0, word_t c1, word_t c2) {
        hdr.words.a = (c0 & hdr.words.a) ^ (c1 & hdr.words.b) ^ c2;
        hdr.words.b = hdr.words.a ^ c1;
    }

    table operation {
        key = { hdr.request.op: exact; }
        actions = { add; sub; mul; invert; negate; logic; shift_left; shift_right; slice; join; saturate; choose; signed;
                    accumulate; draw; crc16_of; crc32_of; csum_of; early; NoAction; }
        const default_action = NoAction();
        const entries = {
            0: add();
            1: sub();
            2: mul();
            3: invert();
            4: negate();
            5: logic();
            6: shift_left();
            7: shift_right();
            8: slice();
            9: join();
            10: saturate();
            11: choose();
            12: signed();
            13: accumulate();
            32: draw();
            33: crc16_of();
            34: crc32_of();
            35: csum_of();
            36: early();
        }
    }
    table coefficients {
        key = { hdr.request.index: exact; }
        actions = { select_words; NoAction; }
        default_action = NoAction();
        size = 8;
    }

    apply {
        standard.egress_spec = 1;
        operation.apply();
        if (hdr.request.op == 20) {
            coefficients.apply();
        }
        if (hdr.request.op == 36) {
            hdr.request.op = 37;
        }
    }
}

control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }

control update_sums(inout headers hdr, inout metadata meta) { apply { } }

control deparse(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.request);
        packet.emit(hdr.words);
    }
}

V1Switch(parse(), verify_sums(), ingress(), egress(), update_sums(), deparse()) main;
