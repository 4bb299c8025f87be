// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Packets that are not contributions: ARP and IPv4 leave by the port of their destination address, unchanged, and pass
// egress by.

#ifndef SUMWIRE_TNA_FORWARDING_P4_
#define SUMWIRE_TNA_FORWARDING_P4_

#include "../headers.p4"
#include "../metadata.p4"

control TnaForwarding(in tna_metadata_t meta,
                      inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                      inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    action to_port(PortId_t port) {
        ig_tm_md.ucast_egress_port = port;
        ig_tm_md.bypass_egress = 1;
    }

    action no_route() {
        ig_dprsr_md.drop_ctl = 1;
    }

    table forward {
        key = {
            meta.lookup_address : exact @name("dst");
        }
        actions = {
            to_port;
            @defaultonly no_route;
        }
        const default_action = no_route();
        size = ROUTES_MAX;
    }

    apply {
        forward.apply();
    }
}

#endif
