// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Packets that are not for the aggregator: ARP and IPv4 leave by the port of their destination address, unchanged.
// The aggregator is an address without a machine: the switch answers ARP for it.
// All of them are refused here, until control/guard.p4 has found their source.

#ifndef SUMWIRE_FORWARDING_P4_
#define SUMWIRE_FORWARDING_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"

control Forwarding(in arp_h arp, in ipv4_h ipv4, inout bit<32> reject, inout destination_t destination,
                   inout standard_metadata_t standard_metadata) {
    @id(ID_ACTION_TO_PORT)
    @brief("Forward") @description("The packet leaves by this port.")
    action to_port(@id(1) port_t port) {
        standard_metadata.egress_spec = port;
    }

    @id(ID_ACTION_NO_ROUTE)
    @brief("Drop") @description("No row has a prefix of the destination.")
    action no_route() {
        mark_to_drop(standard_metadata);
    }

    @id(ID_ACTION_SERVE)
    @brief("Aggregate") @description("The packet is for this switch, which answers from the MAC address given.")
    action serve(@id(1) mac_t mac) {
        destination.mac = mac;
    }

    @id(ID_ACTION_NOT_SERVED)
    @brief("Do not aggregate") @description("The packet is not for this switch.")
    action not_served() {
        reject = REJECT_SOURCE;
    }

    @id(ID_TABLE_FORWARD)
    @brief("Routes") @description("By the longest prefix of the destination address: the port to it.")
    @name("forward")
    table forward {
        key = {
            destination.address : lpm @id(1) @name("dst");
        }
        actions = {
            to_port;
            @defaultonly no_route;
        }
        const default_action = no_route();
        size = ROUTES_MAX;
    }

    @id(ID_TABLE_AGGREGATOR)
    @brief("Own addresses") @description("The addresses at which this switch aggregates.")
    table aggregator {
        key = {
            destination.address : exact @id(1) @name("address");
        }
        actions = {
            serve;
            @defaultonly not_served;
        }
        const default_action = not_served();
        size = AGGREGATORS_MAX;
    }

    apply {
        if (ipv4.isValid() || arp.isValid()) {
            aggregator.apply();
            if (destination.mac == 0) {
                forward.apply();
            } else if (arp.isValid()) {
                reject = REJECT_SOURCE;
            }
        }
    }
}

#endif
