# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What is generated from the P4 sources is current, and the ids in it are stable."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commonlib.version import __version__
from google.protobuf import text_format
from helpers.p4_tools import build, constants
from helpers.paths import ROOT
from p4.config.v1 import p4info_pb2
from sumwire_protocol import program

INCLUDE = ROOT / "p4src/include"
MANIFEST = json.loads((ROOT / build.MANIFEST).read_text())

# Ids and aliases are the interface to control planes: this list only ever grows.
STABLE_IDS = {
    "forward": 0x02000001,
    "aggregator": 0x02000002,
    "job": 0x02000003,
    "worker": 0x02000004,
    "verdict": 0x02000005,
    "thc_low": 0x02000006,
    "thc_high": 0x02000007,
    "replica": 0x02000008,
    "uplink": 0x02000009,
    "virtual_queue": 0x0200000C,
    "to_port": 0x01000001,
    "serve": 0x01000003,
    "admit_job": 0x01000005,
    "admit_worker": 0x01000007,
    "admit_keyed_job": 0x01000027,
    "coefficients_low": 0x01000011,
    "coefficients_high": 0x01000013,
    "address": 0x01000015,
    "to_parent": 0x01000017,
    "limit": 0x01000021,
    "verdicts": 0x12000001,
    "rejects": 0x12000002,
    "queue_decisions": 0x12000003,
    "worker_packets": 0x13000001,
}


def test_manifest_matches_sources_and_artifacts() -> None:
    assert {key: MANIFEST[key] for key in ("sources", "artifacts")} == build.hashes(), "stale: run `make p4`"


def test_python_constants_are_current() -> None:
    assert (ROOT / constants.TARGET).read_text() == constants.render(INCLUDE), "stale: run `make p4`"


def test_the_package_has_the_compiled_program() -> None:
    assert program.JSON.read_bytes() == (ROOT / build.JSON).read_bytes()
    assert program.P4INFO.read_bytes() == (ROOT / build.P4INFO).read_bytes()


def test_ids_are_stable() -> None:
    text = (ROOT / build.P4INFO).read_text()
    pattern = r'preamble \{\s+id: (\d+)\s+name: "[^"]+"\s+alias: "([^"]+)"'
    found = {alias: int(number) for number, alias in re.findall(pattern, text)}
    assert {name: found.get(name) for name in STABLE_IDS} == STABLE_IDS


def test_the_table_and_the_action_that_share_a_name_have_stable_ids() -> None:
    text = (ROOT / build.P4INFO).read_text()
    numbers = re.findall(r'(tables|actions) \{\s+preamble \{\s+id: (\d+)\s+name: "ingress.degrade.degrade"', text)
    assert dict(numbers) == {"tables": str(0x0200000B), "actions": str(0x0100001E)}


def test_every_id_is_in_one_file_and_the_next_free_ones_are_named() -> None:
    text = (INCLUDE / "ids.p4").read_text()
    ids = {name: int(number, 16) for name, number in re.findall(r"^#define (ID_\w+) (0x\w+)$", text, re.MULTILINE)}
    used = re.findall(r"^ *@id\((\w+)\)$", "".join(_sources().values()), re.MULTILINE)
    assert sorted(used) == sorted(ids)
    # Those of objects that are gone are named in comments.
    ever = [int(number, 16) for number in re.findall(r"(?<!free: )0x\w{8}", text)]
    for kind in (0x02, 0x01, 0x12, 0x13):
        assert f"Next free: 0x{max(n for n in ever if n >> 24 == kind) + 1:08X}." in text


def test_every_table_and_action_has_a_description_for_clients() -> None:
    described = text_format.Parse((ROOT / build.P4INFO).read_text(), p4info_pb2.P4Info())
    every = {entity.preamble.id: entity.preamble for entity in (*described.tables, *described.actions)}
    assert [each.name for each in every.values() if not (each.doc.brief and each.doc.description.endswith("."))] == []
    used = {ref.id for table in described.tables for ref in table.action_refs}
    assert used == {action.preamble.id for action in described.actions}, "other actions are @hidden"


def test_the_program_has_the_version_of_the_project() -> None:
    assert f'name: "sumwire"\n  version: "{__version__}"\n' in (ROOT / build.P4INFO).read_text()


def test_metadata_says_who_writes_and_who_reads_each_field() -> None:
    code = _with_fields_for_parameters({name: re.sub(r"//.*", "", text) for name, text in _sources().items()})
    text = (INCLUDE / "metadata.p4").read_text().partition("struct metadata_t {")[2].partition("// Filled by")[0]
    text = text.replace(",\n    // ", ", ")
    said = re.findall(r"// ([\w, ]+) -> ([\w, ]+)\.[^;]*?\n +\w+(?:<\d+>)? (\w+);", text)
    assert len(said) == text.count(";")
    for writers, readers, field in said:
        accesses = {name: re.findall(rf"\bmeta\.{field}\b(?:\.\w+)*( = )?", source) for name, source in code.items()}
        assert {name for name, found in accesses.items() if " = " in found} == set(writers.split(", ")), field
        assert {name for name, found in accesses.items() if "" in found} == set(readers.split(", ")), field


def _with_fields_for_parameters(code: dict[str, str]) -> dict[str, str]:
    """Controls that are handed fields of metadata name them by parameters: each becomes the field again, and is no
    access where the control is applied."""
    control = re.compile(r"^control (\w+)\(([^)]*)\)", re.MULTILINE)
    controls = {kind: (name, words) for name, text in code.items() for kind, words in control.findall(text)}
    applied = re.compile(r"\b(\w+)\.apply\(([^;]*)\);")
    before: dict[str, str] = {}
    while before != code:
        before = dict(code)
        for text in before.values():
            kinds = {one: kind for kind, one in re.findall(r"^ +(\w+)\([\w, ]*\) (\w+);", text, re.MULTILINE)}
            for one, arguments in applied.findall(text):
                callee, words = controls.get(kinds.get(one, ""), ("", ""))
                for argument, parameter in zip(arguments.split(","), words.split(","), strict=False):
                    if callee and re.fullmatch(r"\s*meta\.[\w.]+", argument):
                        signature, body = code[callee].split(words, 1)
                        body, *others = re.split(r"(?=^control )", body, flags=re.MULTILINE)
                        body = re.sub(rf"(?<![\w.\"]){parameter.split()[-1]}\b", argument.strip(), body)
                        code = {**code, callee: signature + words + body + "".join(others)}
    return {name: applied.sub("", text) for name, text in code.items()}


def _sources() -> dict[str, str]:
    return {path.stem: (ROOT / path).read_text() for path in build.sources()}


def test_without_p4c_the_message_says_what_is_missing_and_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(build.BuildError, match=r"p4c-bm2-ss is not on PATH.*packages.*container"):
        try:
            build.compiler_version()
        except build.BuildError as error:
            raise build.BuildError(str(error).replace("\n", " ")) from error


def test_a_constant_the_reader_cannot_evaluate_is_refused(tmp_path: Path) -> None:
    for name in constants.SOURCES:
        (tmp_path / name).write_text("")
    (tmp_path / "sizes.p4").write_text("const int A = B << 2;\n")
    with pytest.raises(constants.P4SourceError, match="B << 2"):
        constants.constants(tmp_path)


def test_the_header_is_as_long_as_sizes_say() -> None:
    bits = sum(width for _, width in dict(constants.headers(INCLUDE))["sumwire"])
    assert bits == 8 * constants.constants(INCLUDE)["SUMWIRE_BYTES"]


def test_no_package_hides_the_real_mininet() -> None:
    assert not (ROOT / "mininet/__init__.py").exists()
