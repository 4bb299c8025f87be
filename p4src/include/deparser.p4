// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What goes out: the headers on the wire that are valid, in wire order.

#ifndef SUMWIRE_DEPARSER_P4_
#define SUMWIRE_DEPARSER_P4_

#include "headers.p4"

control SumwireDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.sumwire);
        packet.emit(hdr.word0);
        packet.emit(hdr.word1);
        packet.emit(hdr.pair2);
        packet.emit(hdr.pair4);
        packet.emit(hdr.pair6);
        packet.emit(hdr.jumbo);
        packet.emit(hdr.auth);
    }
}

#endif
