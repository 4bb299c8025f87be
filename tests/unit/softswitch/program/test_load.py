# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Programs are loaded, their control flow is ordered, and what cannot run is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from helpers.paths import ROOT
from hypothesis import given
from hypothesis import strategies as st
from softswitch.errors import UnsupportedProgramError
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.program.traverse import CycleError, joins, topological
from softswitch.switch import EngineChoice, SoftSwitch

Graph = dict[int, list[int | None]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Node 0 starts; edges only go to larger numbers."""
    size = draw(st.integers(1, 9))
    graph: Graph = {}
    for node in range(size):
        later: list[int | None] = [*range(node + 1, size), None]
        graph[node] = draw(st.lists(st.sampled_from(later), min_size=1, max_size=3))
    return graph


def paths(graph: Graph, node: int) -> list[list[int]]:
    """All paths from ``node`` to the end, without ``node`` itself."""
    found: list[list[int]] = []
    for child in graph[node]:
        found += [[]] if child is None else [[child, *rest] for rest in paths(graph, child)]
    return found


@given(graphs())
def test_join_is_the_first_node_on_every_path(graph: Graph) -> None:
    for node, join in joins(0, lambda n: graph[n]).items():
        ways = paths(graph, node)
        common = [other for other in ways[0] if all(other in way for way in ways)]
        assert join == (common[0] if common else None)


@given(graphs())
def test_topological_order(graph: Graph) -> None:
    order = topological(0, lambda n: graph[n])
    position = {node: index for index, node in enumerate(order)}
    assert order[0] == 0
    assert len(position) == len(order)
    for node in order:
        assert all(position[child] > position[node] for child in graph[node] if child is not None)


def test_empty_graph() -> None:
    assert topological(None, lambda n: []) == []
    assert joins(None, lambda n: []) == {}


@pytest.mark.parametrize("graph", [{0: [0]}, {0: [1], 1: [2, None], 2: [1]}])
def test_loops(graph: Graph) -> None:
    with pytest.raises(CycleError):
        topological(0, lambda n: graph[n])


Json = dict[str, Any]
HERE = {"filename": "some.p4", "line": 77, "column": 1, "source_fragment": "x"}


@pytest.fixture
def tables(program_text: Callable[[str], str]) -> Json:
    loaded: Json = json.loads(program_text("tables"))
    return loaded


def refuse(root: Json) -> str:
    with pytest.raises(UnsupportedProgramError) as caught:
        load_program(json.dumps(root))
    return str(caught.value)


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ("extern_instances", "extern instance"),
    ],
)
def test_whole_sections(tables: Json, section: str, what: str) -> None:
    tables[section] = [{"name": "thing", "source_info": HERE}]
    assert refuse(tables) == f"some.p4:77: {what} 'thing' is not supported by the soft switch"


@pytest.mark.parametrize("op", ["cosine", "invent"])
def test_primitives(tables: Json, op: str) -> None:
    tables["actions"][0]["primitives"] = [{"op": op, "parameters": [], "source_info": HERE}]
    assert refuse(tables) == f"some.p4:77: primitive {op!r} is not supported by the soft switch"


def test_requests_of_more_passes_name_a_field_list(tables: Json) -> None:
    action = tables["actions"][0]
    number = {"type": "hexstr", "value": "0x5"}
    action["primitives"] = [{"op": "resubmit", "parameters": [number], "source_info": HERE}]
    assert "is no field list's id" in refuse(tables)
    number |= {"type": "field", "value": ["standard_metadata", "packet_length"]}
    assert refuse(tables) == "some.p4:77: a field list whose number is not constant is not supported by the soft switch"


def test_operands_operators_and_targets(tables: Json) -> None:
    action = tables["actions"][0]
    assign = action["primitives"][0]
    assign["source_info"] = HERE
    original = copy.deepcopy(assign["parameters"])
    assign["parameters"][1] = {"type": "stack_field", "value": ["s", "f"]}
    assert "some.p4:77: header stack 's'" in refuse(tables)
    assign["parameters"][1] = {"type": "expression", "value": {"op": "cosine", "left": None, "right": None}}
    assert "operator 'cosine'" in refuse(tables)
    assign["parameters"] = original
    assign["parameters"][0] = {"type": "field", "value": ["probe", "absent"]}
    assert "field ['probe', 'absent']" in refuse(tables)


def test_tables_keys_and_profiles(tables: Json) -> None:
    table = next(t for t in tables["pipelines"][0]["tables"] if t["name"] == "ingress.longest")
    line = table["source_info"]["line"]
    table["key"][0]["match_type"] = "selector"
    assert f"tables.p4:{line}: match kind 'selector'" in refuse(tables)
    table["key"][0]["match_type"] = "lpm"
    table["type"] = "invented"
    assert "table 'ingress.longest' of type 'invented'" in refuse(tables)


def test_widths_and_variable_length(tables: Json) -> None:
    fields = next(t for t in tables["header_types"] if t["name"] == "probe_t")["fields"]
    fields[0][1] = 2056
    assert "field probe.which of 2056 bits (1..2048)" in refuse(tables)
    fields[0][1] = 9
    assert "no whole bytes" in refuse(tables)
    fields[0][1] = fields[1][1] = "*"
    assert "with two varbit fields" in refuse(tables)


def test_unknown_inputs_of_a_checksum_and_unknown_hashes(program_text: Callable[[str], str]) -> None:
    root = json.loads(program_text("checksum"))
    root["calculations"][0]["input"].append({"type": "trailer", "value": None})
    assert "an input of type 'trailer' in a checksum or hash" in refuse(root)
    root = json.loads(program_text("checksum"))
    root["calculations"][0]["algo"] = "crc16_custom"
    assert "hash algorithm 'crc16_custom'" in refuse(root)


@pytest.mark.parametrize("text", ["", "not json", "[]", "{}", '{"pipelines": 3}', '{"pipelines": [{}]}'])
def test_what_is_no_program(text: str) -> None:
    with pytest.raises(UnsupportedProgramError):
        load_program(text)


def test_the_form_keeps_sources_and_structure(program_text: Callable[[str], str]) -> None:
    program = load_program(program_text("wide"))
    early = next(action for action in program.actions if action.name == "ingress.early")
    assert early.source.file.endswith("wide.p4")
    assert early.source.line > 0
    first, branch = early.body
    assert isinstance(first, ir.Assign)
    # if (index == 1) return; else ...: what follows a return stands in the other branch
    assert isinstance(branch, ir.If)
    assert branch.then == ()
    inner = branch.otherwise[1]
    assert isinstance(inner, ir.If)
    assert inner.then[-1] == ir.Exit()
    assert len(inner.otherwise) == 1


def test_a_store_wraps_at_the_width_of_its_field(program_text: Callable[[str], str], engine: EngineChoice) -> None:
    """p4c writes the wrap out; the engines do not depend on it."""
    root = json.loads(program_text("wide"))
    add = next(action for action in root["actions"] if action["name"] == "ingress.add")
    masked = add["primitives"][0]["parameters"][1]["value"]["value"]
    assert masked["op"] == "&"
    add["primitives"][0]["parameters"][1]["value"] = masked["left"]
    switch = SoftSwitch(json.dumps(root), engine=engine)
    words = ((1 << 1024) - 1).to_bytes(128) + (2).to_bytes(128)
    assert switch.process(0, bytes(8) + words) == [(1, bytes(8) + (1).to_bytes(128) + (2).to_bytes(128))]


def test_no_mask_where_nothing_can_overflow(program_text: Callable[[str], str]) -> None:
    """Bitwise operators on words in range cost one operation each; an addition keeps its wrap."""
    lines = SoftSwitch(program_text("wide"), engine="python").loaded.source.splitlines()
    logic = next(i for i, line in enumerate(lines) if line.endswith("# action ingress.logic")) + 1
    assert lines[logic].count("&") == 1
    assert lines[logic].count("^") == 2
    add = next(i for i, line in enumerate(lines) if line.endswith("# action ingress.add")) + 1
    assert f"& {(1 << 1024) - 1:#x}" in lines[add]


def with_conditions(root: Json, count: int, *, nested: bool) -> str:
    """``tables`` with ``count`` conditions ``which == 100 + i`` before its own: an else-if chain, or nested ifs."""
    pipeline = root["pipelines"][0]
    ours = next(c for c in pipeline["conditionals"] if c["name"] == "node_3")
    first = next(t for t in pipeline["tables"] if "node_3" in t["next_tables"].values())
    first["next_tables"] = dict.fromkeys(first["next_tables"], "c0")
    for number in range(count):
        condition = copy.deepcopy(ours) | {"name": f"c{number}", "id": 100 + number}
        condition["expression"]["value"]["right"]["value"] = hex(100 + number)
        following = f"c{number + 1}" if number + 1 < count else "node_3"
        condition["true_next"], condition["false_next"] = "ingress.longest", following
        if nested:
            condition["true_next"], condition["false_next"] = following, "ingress.longest"
        pipeline["conditionals"].append(condition)
    return json.dumps(root)


def test_a_long_chain_of_conditions(tables: Json, engine: EngineChoice) -> None:
    switch = SoftSwitch(with_conditions(tables, 150, nested=False), engine=engine)
    for which, trace in ((99, 0), (100, 0xFFFF), (177, 0xFFFF), (249, 0xFFFF), (250, 0), (5, 0xEE)):
        ((_, out),) = switch.process(0, bytes([which]) + bytes(15))
        assert int.from_bytes(out[8:]) == trace


def test_nesting_that_python_cannot_hold_is_refused(tables: Json) -> None:
    with pytest.raises(UnsupportedProgramError, match="nested too deeply"):
        SoftSwitch(with_conditions(tables, 150, nested=True), engine="python")


@pytest.mark.parametrize("engine", ["python", pytest.param("native", marks=pytest.mark.cc)])
def test_a_marked_copy_of_the_metadata_is_a_copy(engine: EngineChoice) -> None:
    """p4c copies a control's parameter in and out. Only what is copied back drops the packet, as in bmv2."""
    frame = bytes(12) + bytes.fromhex("88b5 07 0000001e")

    def sent(changed: Callable[[dict[str, Any], list[dict[str, Any]]], None]) -> list[int]:
        program = json.loads((ROOT / "examples" / "p4" / "sum.json").read_text())
        kind = {"name": "smeta_0", "id": len(program["headers"]), "header_type": "standard_metadata"}
        program["headers"].append({**kind, "metadata": True, "pi_omit": True})
        for action in program["actions"]:
            if action["name"] == "MyIngress.drop":
                changed(action["primitives"][0], action["primitives"])
        return [port for port, _ in SoftSwitch(json.dumps(program), engine=engine).process(1, frame)]

    def in_a_copy(mark: dict[str, Any], _: list[dict[str, Any]]) -> None:
        mark["parameters"][0]["value"] = "smeta_0"

    def copied_back(mark: dict[str, Any], primitives: list[dict[str, Any]]) -> None:
        in_a_copy(mark, primitives)
        names = [{"type": "field", "value": [name, "egress_spec"]} for name in ("standard_metadata", "smeta_0")]
        primitives.append({**mark, "op": "assign", "parameters": names})

    def in_no_metadata(mark: dict[str, Any], _: list[dict[str, Any]]) -> None:
        mark["parameters"][0]["value"] = "ethernet"

    assert [sent(change) for change in (lambda *_: None, in_a_copy, copied_back)] == [[], [0], []]
    with pytest.raises(UnsupportedProgramError, match="'ethernet' in the place of metadata with egress_spec"):
        sent(in_no_metadata)
