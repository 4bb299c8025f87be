// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may send what from where: frames to forward, ARP, and packets that were refused. Of these a frame whose source is
// not known at its port goes no further; of the others the sender may be told why. A contribution that is admitted needs
// no look-up here, since its worker's row has port and addresses.

#ifndef SUMWIRE_GUARD_P4_
#define SUMWIRE_GUARD_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
#include "refusal.p4"

control Guard(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Refusal() refusal;

    @id(ID_COUNTER_REJECTS)
    counter(REJECTS, CounterType.packets_and_bytes) rejects;

    @hidden action see_address() {
        meta.scratch = hdr.ipv4.src;
    }

    @hidden action see_arp_sender() {
        meta.scratch = hdr.arp.spa;
    }

    @id(ID_ACTION_KNOWN_SOURCE)
    @brief("Known") @description("The frame may come from here.")
    action known_source() {
    }

    @id(ID_ACTION_UNKNOWN_SOURCE)
    @brief("Unknown") @description("The frame goes no further, and its sender is told nothing.")
    action unknown_source() {
    }

    // The hosts and lower switches of the switch's configuration, at the ports where their frames come in. No row has an
    // aggregator's address at a host's port.
    @id(ID_TABLE_SOURCE)
    @brief("Known senders")
    @description("By port, MAC and IPv4 address: hosts and lower switches, where their frames come in.")
    table source {
        key = {
            standard_metadata.ingress_port : exact @id(1) @name("port");
            hdr.ethernet.src : exact @id(2) @name("mac");
            meta.scratch : exact @id(3) @name("address");
        }
        actions = {
            known_source;
            @defaultonly unknown_source;
        }
        const default_action = unknown_source();
        size = SOURCES_MAX;
    }

    @hidden action pass() {
        meta.reject = REJECT_NONE;
    }

    @hidden action answer_arp() {
        hdr.arp.oper = ARP_REPLY;
        hdr.arp.tha = hdr.arp.sha;
        hdr.arp.tpa = hdr.arp.spa;
        hdr.arp.sha = meta.switch_mac;
        hdr.arp.spa = meta.lookup_address;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = meta.switch_mac;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    @hidden action refuse() {
        meta.verdict = VERDICT_REJECT;
        rejects.count(meta.reject);
    }

    @hidden action refuse_source() {
        refuse();
        mark_to_drop(standard_metadata);
    }

    apply {
        if (hdr.arp.isValid()) {
            see_arp_sender();
        } else {
            see_address();
        }
        if (source.apply().hit) {
            if (meta.reject != REJECT_SOURCE) {
                refuse();
                refusal.apply(hdr, meta, standard_metadata);
            } else if (!hdr.arp.isValid()) {
                pass();
            } else if (hdr.arp.sha != hdr.ethernet.src) {
                refuse_source();
            } else {
                pass();
                if (meta.switch_mac != 0 && hdr.arp.oper == ARP_REQUEST) {
                    answer_arp();
                }
            }
        } else if (meta.reject == REJECT_SOURCE) {
            refuse_source();
        } else {
            refuse();
        }
    }
}

#endif
