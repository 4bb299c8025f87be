# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's messages, made of their descriptors: the same as those of the package, and they speak to each other."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import google.protobuf
import pytest
from commonlib import p4runtime
from google.protobuf import any_pb2, descriptor_pool
from google.rpc import status_pb2


@pytest.fixture
def made() -> dict[str, ModuleType]:
    """All modules, made in a pool of their own."""
    pool = descriptor_pool.DescriptorPool()
    for needed in (any_pb2, status_pb2):
        pool.AddSerializedFile(needed.DESCRIPTOR.serialized_pb)
    found = {}
    for name in p4runtime.MODULES:
        file = p4runtime.descriptor_of(name)
        assert file is not None
        found[name] = p4runtime.messages(name, file, pool)
    return found


def public(module: ModuleType) -> set[str]:
    return {name for name in vars(module) if name[0].isupper()}


def test_they_are_those_of_the_package(made: dict[str, ModuleType]) -> None:
    for name, module in made.items():
        assert public(module) == public(importlib.import_module(name)), name


def test_bytes_of_one_are_read_by_the_other(made: dict[str, ModuleType]) -> None:
    ours, theirs = made["p4.v1.p4runtime_pb2"], importlib.import_module("p4.v1.p4runtime_pb2")
    request = ours.WriteRequest(device_id=7)
    entry = request.updates.add(type=ours.Update.INSERT).entity.table_entry
    entry.match.add(field_id=3).exact.value = b"\x01"
    read = theirs.WriteRequest.FromString(request.SerializeToString())
    assert read.updates[0].type == theirs.Update.INSERT
    assert read.updates[0].entity.table_entry.match[0].exact.value == b"\x01"


@pytest.mark.parametrize(("version", "loaded"), [("3.20.3", False), ("4.25.1", True), ("7.36.2", True)])
def test_only_a_later_protobuf_needs_it(version: str, loaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("made")
    monkeypatch.setattr(google.protobuf, "__version__", version)
    monkeypatch.setattr(p4runtime, "messages", lambda *_: made)
    for name in p4runtime.MODULES:
        importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)
        parent, _, child = name.rpartition(".")
        monkeypatch.setattr(importlib.import_module(parent), child, None)
    p4runtime.load_messages()
    assert [sys.modules.get(name) is made for name in p4runtime.MODULES] == [loaded] * 4
    assert (importlib.import_module("p4.v1").p4runtime_pb2 is made) == loaded


def test_a_module_of_a_newer_protoc_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "newer_pb2.py").write_text("DESCRIPTOR = pool.AddSerializedFile(b'...')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert p4runtime.descriptor_of("newer_pb2") is None
    with pytest.raises(ModuleNotFoundError, match="nowhere_pb2"):
        p4runtime.descriptor_of("nowhere_pb2")
