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

control Guard(inout ethernet_h ethernet, inout arp_h arp, inout ipv4_h ipv4, inout udp_h udp, inout sumwire_h sumwire,
              inout bit<32> reject, inout bit<32> verdict, inout bit<2> reply, in destination_t destination,
              inout scratch_t scratch, inout standard_metadata_t standard_metadata) {
    Refusal() refusal;

    @id(ID_COUNTER_REJECTS)
    counter(REJECTS, CounterType.packets_and_bytes) rejects;

    @hidden action see_address() {
        scratch.value = ipv4.src;
    }

    @hidden action see_arp_sender() {
        scratch.value = arp.spa;
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
            ethernet.src : exact @id(2) @name("mac");
            scratch.value : exact @id(3) @name("address");
        }
        actions = {
            known_source;
            @defaultonly unknown_source;
        }
        const default_action = unknown_source();
        size = SOURCES_MAX;
    }

    @hidden action pass() {
        reject = REJECT_NONE;
    }

    @hidden action answer_arp() {
        arp.oper = ARP_REPLY;
        arp.tha = arp.sha;
        arp.tpa = arp.spa;
        arp.sha = destination.mac;
        arp.spa = destination.address;
        ethernet.dst = ethernet.src;
        ethernet.src = destination.mac;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    @hidden action refuse() {
        verdict = VERDICT_REJECT;
        rejects.count(reject);
    }

    @hidden action refuse_source() {
        refuse();
        mark_to_drop(standard_metadata);
    }

    apply {
        if (arp.isValid()) {
            see_arp_sender();
        } else {
            see_address();
        }
        if (source.apply().hit) {
            if (reject != REJECT_SOURCE) {
                refuse();
                refusal.apply(ethernet, ipv4, udp, sumwire, reject, reply, destination, scratch, standard_metadata);
            } else if (!arp.isValid()) {
                pass();
            } else if (arp.sha != ethernet.src) {
                refuse_source();
            } else {
                pass();
                if (destination.mac != 0 && arp.oper == ARP_REQUEST) {
                    answer_arp();
                }
            }
        } else if (reject == REJECT_SOURCE) {
            refuse_source();
        } else {
            refuse();
        }
    }
}

#endif
