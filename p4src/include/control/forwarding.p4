// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// What is not for the aggregator: ARP and IPv4 leave by the port of their destination address, untouched.
// The aggregator is an address without a machine: the switch answers ARP for it.

#ifndef SUMWIRE_FORWARDING_P4_
#define SUMWIRE_FORWARDING_P4_

#include "../headers.p4"
#include "../metadata.p4"

control Forwarding(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    @id(0x01000001)
    action to_port(@id(1) port_t port) {
        standard_metadata.egress_spec = port;
    }

    @id(0x01000002)
    action no_route() {
        mark_to_drop(standard_metadata);
    }

    @id(0x01000003)
    action serve(@id(1) mac_t mac) {
        meta.to_switch = 1;
        meta.switch_mac = mac;
    }

    @id(0x01000004)
    action not_served() {
        meta.to_switch = 0;
    }

    @id(0x02000001)
    @name("forward")
    table forward {
        key = {
            meta.lookup_address : lpm @id(1) @name("dst");
        }
        actions = {
            to_port;
            @defaultonly no_route;
        }
        const default_action = no_route();
        size = ROUTES_MAX;
    }

    @id(0x02000002)
    table aggregator {
        key = {
            meta.lookup_address : exact @id(1) @name("address");
        }
        actions = {
            serve;
            @defaultonly not_served;
        }
        const default_action = not_served();
        size = AGGREGATORS_MAX;
    }

    action answer_arp() {
        ipv4_t asked = hdr.arp.tpa;
        hdr.arp.oper = ARP_REPLY;
        hdr.arp.tha = hdr.arp.sha;
        hdr.arp.tpa = hdr.arp.spa;
        hdr.arp.sha = meta.switch_mac;
        hdr.arp.spa = asked;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = meta.switch_mac;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    apply {
        // Undefined otherwise: a packet nobody decides on would leave by port 0.
        mark_to_drop(standard_metadata);
        if (hdr.arp.isValid() || hdr.ipv4.isValid()) {
            meta.lookup_address = hdr.ipv4.dst;
            if (hdr.arp.isValid()) {
                meta.lookup_address = hdr.arp.tpa;
            }
            aggregator.apply();
            if (meta.to_switch == 0) {
                forward.apply();
            } else if (hdr.arp.isValid() && hdr.arp.oper == ARP_REQUEST) {
                answer_arp();
            }
        }
    }
}

#endif
