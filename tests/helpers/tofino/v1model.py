# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The program for Tofino as one for v1model: its parser, tables, actions and conditions as they are written, and
something else where Tofino alone has it. A register's action becomes a read, the action's lines, and a write.

So a switch that runs v1model shows what the program does to packets. It does not show what Tofino makes of it.
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

from helpers.p4_tools import tna
from helpers.paths import ROOT

_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
_REGISTER_ACTION = re.compile(
    r"    RegisterAction<(?P<type>\w+(?:<\d+>)?), cell_t, (?P<out>\w+(?:<\d+>)?)>"
    r"\((?P<register>\w+)\) (?P<name>\w+) = \{\n"
    r"        void apply\(inout (?P=type) (?P<slot>\w+)(?:, out (?P=out) (?P<result>\w+))?\) \{\n"
    r"(?P<body>.*?)\n        \}\n    \};\n",
    re.DOTALL,
)
# What only Tofino has, and what stands in for it.
_REPLACED = (
    (r"control TnaIngressDeparser.*?\n}\n", ""),
    (r"control TnaEgressDeparser.*?\n}\n", ""),
    (r"parser TnaEgressParser.*?\n}\n", ""),
    (r" +packet\.extract\(ig_intr_md\);\n", ""),
    (r" +packet\.advance\(PORT_METADATA_SIZE\);\n", ""),
    (r" +Checksum\(\) ipv4_checksum;\n\n", ""),
    (r" +ipv4_checksum\.add\(hdr\.ipv4\);\n", ""),
    (r" +meta\.checksum_error = ipv4_checksum\.verify\(\);\n", ""),
    (r",\n +out ingress_intrinsic_metadata_t ig_intr_md\)", ")"),
    (r"(?<!in)out tna_metadata_t meta\)", "inout tna_metadata_t meta)"),
    (r"DirectCounter<bit<64>>\(CounterType_t\.PACKETS_AND_BYTES\)", "direct_counter(CounterType.packets_and_bytes)"),
    (r"Counter<bit<64>, tna_verdict_t>\(VERDICTS, \w+\.PACKETS\)", "counter(VERDICTS, CounterType.packets)"),
    (r"verdicts\.count\(meta\.verdict\)", "verdicts.count((bit<32>)meta.verdict)"),
    (r" +Hash<bit<8>>\(HashAlgorithm_t\.CRC32\) hash;\n", ""),
    (r"meta\.draw = hash\.get\((.*?)\);", r"hash(meta.draw, HashAlgorithm.crc32, 16w0, \1, 32w256);"),
)
_PRELUDE = """
#include <core.p4>
#include <v1model.p4>
#define max(a, b) ((a) > (b) ? (a) : (b))
typedef bit<9> PortId_t;
typedef bit<16> MulticastGroupId_t;
struct ingress_intrinsic_metadata_t { PortId_t ingress_port; }
struct ingress_intrinsic_metadata_from_parser_t { }
struct ingress_intrinsic_metadata_for_deparser_t { bit<3> drop_ctl; }
struct ingress_intrinsic_metadata_for_tm_t {
    PortId_t ucast_egress_port;
    bit<1> bypass_egress;
    MulticastGroupId_t mcast_grp_a;
}
struct egress_intrinsic_metadata_t { bit<16> egress_rid; }
struct egress_intrinsic_metadata_from_parser_t { }
struct egress_intrinsic_metadata_for_deparser_t { }
struct egress_intrinsic_metadata_for_output_port_t { }
"""
_SWITCH = """
struct whole_t {
    tna_metadata_t meta;
    bit<1> bypass;
}
parser WholeParser(packet_in packet, out tna_headers_t hdr, inout whole_t whole, inout standard_metadata_t standard) {
    TnaIngressParser() inner;
    state start {
        inner.apply(packet, hdr, whole.meta);
        transition accept;
    }
}
control Verify(inout tna_headers_t hdr, inout whole_t whole) { apply { } }
control ingress(inout tna_headers_t hdr, inout whole_t whole, inout standard_metadata_t standard) {
    TnaIngress() inner;
    apply {
        ingress_intrinsic_metadata_t intrinsic = { standard.ingress_port };
        ingress_intrinsic_metadata_from_parser_t from_parser;
        ingress_intrinsic_metadata_for_deparser_t for_deparser = { 0 };
        ingress_intrinsic_metadata_for_tm_t for_tm = { DROP_PORT, 0, 0 };
        if (standard.checksum_error == 1) {
            whole.meta.checksum_error = true;
        }
        inner.apply(hdr, whole.meta, intrinsic, from_parser, for_deparser, for_tm);
        whole.bypass = for_tm.bypass_egress;
        standard.egress_spec = for_tm.ucast_egress_port;
        standard.mcast_grp = for_tm.mcast_grp_a;
        if (for_deparser.drop_ctl == 1) {
            mark_to_drop(standard);
        }
    }
}
control egress(inout tna_headers_t hdr, inout whole_t whole, inout standard_metadata_t standard) {
    TnaEgress() inner;
    apply {
        if (whole.bypass == 0) {
            tna_egress_headers_t replies;
            tna_egress_metadata_t meta;
            egress_intrinsic_metadata_t intrinsic = { standard.egress_rid };
            egress_intrinsic_metadata_from_parser_t from_parser;
            egress_intrinsic_metadata_for_deparser_t for_deparser;
            egress_intrinsic_metadata_for_output_port_t for_port;
            replies.ethernet = hdr.ethernet;
            replies.ipv4 = hdr.ipv4;
            replies.udp = hdr.udp;
            replies.sumwire = hdr.sumwire;
            inner.apply(replies, meta, intrinsic, from_parser, for_deparser, for_port);
            hdr.ethernet = replies.ethernet;
            hdr.ipv4 = replies.ipv4;
            hdr.udp = replies.udp;
            hdr.sumwire = replies.sumwire;
        }
    }
}
control Compute(inout tna_headers_t hdr, inout whole_t whole) {
    apply {
        update_checksum(hdr.ipv4.isValid() && whole.bypass == 0, {
            hdr.ipv4.version_ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len, hdr.ipv4.id, hdr.ipv4.fragment,
            hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst}, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control WholeDeparser(packet_out packet, in tna_headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(WholeParser(), Verify(), ingress(), egress(), Compute(), WholeDeparser()) main;
"""


def compile_for_v1model(folder: Path) -> str:
    """The JSON that p4c makes of it. Needs p4c-bm2-ss."""
    source, made = folder / "tofino.p4", folder / "tofino.json"
    source.write_text(translate())
    command = ["p4c-bm2-ss", "--Wdisable", "-I", str(ROOT / "p4src"), "-o", str(made), str(source)]
    subprocess.run(command, check=True, cwd=folder)
    return made.read_text()


def translate() -> str:
    """The program's text for v1model."""
    text = _inlined(ROOT / tna.PROGRAM, set()).partition("#include <tna.p4>\n")[2].partition("\nPipeline(")[0]
    for pattern, instead in _REPLACED:
        text, times = re.subn(f"(?s){pattern}", instead, text)
        assert times == 1, (pattern, times)
    return _PRELUDE + _registers(text) + _SWITCH


def _inlined(path: Path, seen: set[Path]) -> str:
    """A file of the program with those that it includes, each once; shared ones stay includes."""

    def included(found: re.Match[str]) -> str:
        other = (path.parent / found[1]).resolve()
        if other.parent == ROOT / "p4src/include":
            return f'#include "include/{other.name}"'
        if other in seen:
            return ""
        seen.add(other)
        return _inlined(other, seen)

    return _INCLUDE.sub(included, path.read_text())


def _registers(text: str) -> str:
    """Each register's action goes to where it is executed."""
    while found := _REGISTER_ACTION.search(text):
        text = text[: found.start()] + text[found.end() :]
        call = re.compile(rf"        (?:(?P<target>[\w.]+) = )?{found['name']}\.execute\((?P<cell>[\w.]+)\);\n")
        text, times = call.subn(functools.partial(_inline, found), text)
        assert times == 1, found["name"]
    text = re.sub(r"Register<opening_pair_t, cell_t>", "register<bit<64>>", text)
    return re.sub(r"Register<(bitmap_t|bit<32>), cell_t>", r"register<\1>", text)


def _inline(action: re.Match[str], use: re.Match[str]) -> str:
    slot, register, cell = action["slot"], action["register"], f"(bit<32>){use['cell']}"
    pair = action["type"] == "opening_pair_t"
    lines = [
        f"{'bit<64>' if pair else action['type']} raw;",
        f"{register}.read(raw, {cell});",
        f"{action['type']} {slot};",
    ]
    lines += [f"{slot}.round = raw[63:32];", f"{slot}.run = raw[31:0];"] if pair else [f"{slot} = raw;"]
    if action["result"]:
        lines.append(f"{action['out']} {action['result']};")
    lines.append(action["body"])
    lines.append(f"{register}.write({cell}, {f'{slot}.round ++ {slot}.run' if pair else slot});")
    if use["target"]:
        lines.append(f"{use['target']} = {action['result']};")
    return "        {\n" + "\n".join(lines) + "\n        }\n"
