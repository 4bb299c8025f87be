# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Imports point downward only: between packages, between the folders of a package, and without circles among modules.

Every import counts, also those within functions and under ``TYPE_CHECKING``. The one exception are facades: an
``__init__`` may name what lies in its own folder and below it, which others then reach through it, and no module of
that folder imports its own facade.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from helpers.paths import ROOT

# package -> its folder, the packages it may import, and its layers from the bottom up. Rooms of one layer do not
# import each other.
PACKAGES: dict[str, tuple[str, set[str], str]] = {
    "sumwire_protocol": (
        "protocol",
        {"commonlib"},
        "constants events | digest metrics ops program tables | authentication layout | scapy_layer wireshark",
    ),
    "commonlib": (
        "common",
        set(),
        "version events privileges shutdown forking log_context http_client http_server untrusted facade p4runtime"
        " entry | logs metrics | metrics_server",
    ),
    "nativelib": (
        "native",
        set(),
        "declarations errors | programs trusted | cache | prebuilt compiler | build",
    ),
    "sumwire": (
        "host",
        {"commonlib", "sumwire_protocol", "nativelib"},
        "blocks errors native numeric | checkpoint lifecycle logs see trace | config | wire | aggregator codec | blind"
        " | transport | job | multihop | training | backend lowrank sharded | dlcp | delivery | systems doctor top"
        " | start | optim ddp reductions | cli",
    ),
    "sumwire_controller": (
        "controller",
        {"commonlib", "sumwire_protocol"},
        "errors | model | derive | rules | parse | deploy | cli",
    ),
    "softswitch": (
        "switch",
        {"commonlib", "nativelib"},
        "errors events | program | runtime | python native | records pcap | switch trace coverage capture | device "
        "metrics options | p4runtime | cli_door | cli",
    ),
    "sumwire_lab": (
        "mininet",
        {"commonlib", "sumwire_protocol", "nativelib", "sumwire", "sumwire_controller", "softswitch"},
        "errors | options | system | study | network | training | load simulate | run | faults | bench"
        " | experiments models | verify | cli",
    ),
}

Edges = dict[str, set[str]]


def modules_of(package: str) -> dict[str, Path]:
    """Path by dotted name; a folder's ``__init__`` has the folder's name."""
    base = ROOT / PACKAGES[package][0]
    found = {}
    for path in sorted((base / package).rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = {name: path for package in PACKAGES for name, path in modules_of(package).items()}


def imported(tree: ast.AST, known: Mapping[str, object]) -> Iterator[str]:
    """Modules that a file imports, anywhere in it: `from folder import module` is the module, not the folder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, "relative imports hide where they point"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))


def hidden_imports(tree: ast.AST, facade: bool) -> list[int]:
    """Lines that import by a name this file cannot read. A facade may compute names below its own."""
    readable, found = set(), []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=func, args=[ast.Constant(value=str(name))]) if not name.startswith("."):
                readable.add(func)
            case ast.Call(func=func, args=[ast.JoinedStr() as name]) if facade:
                if ast.unparse(name)[2:].startswith("{__name__}."):
                    readable.add(func)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="__import__") | ast.Attribute(attr="__import__"):
                found.append(node.lineno)
            case ast.Name(id="import_module") | ast.Attribute(attr="import_module") if node not in readable:
                found.append(node.lineno)
            case ast.alias(name="import_module" | "__import__", asname=str()):
                found.append(node.lineno)
    return found


def edges_of(modules: Mapping[str, Path]) -> Edges:
    return {
        name: {found for found in imported(ast.parse(path.read_text()), MODULES) if found in MODULES and found != name}
        for name, path in modules.items()
    }


@functools.cache
def all_edges() -> Edges:
    return edges_of(MODULES)


def package_of(module: str) -> str:
    return module.partition(".")[0]


def is_facade(module: str) -> bool:
    return MODULES[module].name == "__init__.py"


def room_of(module: str) -> str:
    """The folder or file below the package, "" for its own ``__init__`` and ``__main__``."""
    room = module.split(".")[1:2]
    return room[0] if room and room != ["__main__"] else ""


def layers_of(package: str) -> dict[str, int]:
    layers = [layer.split() for layer in PACKAGES[package][2].split("|")]
    return {room: number for number, layer in enumerate(layers) for room in layer} | {"": len(layers)}


def upward(package: str, edges: Edges) -> list[str]:
    """Imports that do not point to a lower room of the package."""
    layers = layers_of(package)
    found = []
    for module, targets in edges.items():
        for target in targets:
            if package_of(module) != package or package_of(target) != package:
                continue
            here, there = room_of(module), room_of(target)
            if here != there and layers[there] >= layers[here]:
                found.append(f"{module} -> {target}")
    return sorted(found)


def circle(edges: Edges) -> list[str]:
    """A circle of imports, if there is one."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_every_room_has_a_layer() -> None:
    for package in PACKAGES:
        assert {room_of(module) for module in modules_of(package)} | {""} == set(layers_of(package)), package


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_import_lower_rooms_only(package: str) -> None:
    assert upward(package, all_edges()) == []


def test_no_circle_of_imports() -> None:
    assert circle(all_edges()) == []


def test_no_import_is_hidden() -> None:
    found = {name: hidden_imports(ast.parse(path.read_text()), is_facade(name)) for name, path in MODULES.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_lower_packages_only(package: str) -> None:
    allowed = PACKAGES[package][1] | {package}
    found = {
        f"{module} -> {target}"
        for module in modules_of(package)
        for target in all_edges()[module]
        if package_of(target) not in allowed
    }
    assert found == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_the_facade_of_its_own_folder(package: str) -> None:
    found = {
        f"{module} -> {target}"
        for module in modules_of(package)
        for target in all_edges()[module]
        if is_facade(target) and module.startswith(f"{target}.")
    }
    assert found == set()


# -- the picture of them -------------------------------------------------------------------------------

_DRAWN = re.compile(r'<text class="(name|folder-name)"[^>]*>([^<]+)</text>')


def drawn() -> dict[str, list[str]]:
    """Folders in the picture by package, from the top down; "p4src" counts as a package."""
    found: dict[str, list[str]] = {}
    for kind, text in _DRAWN.findall((ROOT / "docs" / "images" / "rooms.svg").read_text()):
        if kind == "name":
            folders = found[text.rpartition("/")[2]] = []
        else:
            folders.append(text)
    return found


def test_the_picture_has_every_package() -> None:
    assert set(drawn()) == {*PACKAGES, "p4src"}


@pytest.mark.parametrize("package", ["sumwire", "sumwire_controller", "softswitch", "sumwire_lab"])
def test_the_picture_has_every_folder_in_its_order(package: str) -> None:
    folders, layers = drawn()[package], layers_of(package)
    base = ROOT / PACKAGES[package][0] / package
    assert sorted(folders) == sorted(path.parent.name for path in base.glob("*/__init__.py"))
    numbers = [layers[folder] for folder in folders]
    assert numbers == sorted(numbers, reverse=True)


# -- the rules themselves ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("sumwire.wire.packets", "sumwire.codec.thc"),
        ("sumwire.codec.base", "sumwire.transport.window"),
        ("sumwire.errors", "sumwire"),
        ("sumwire.job.job", "sumwire.cli"),
        ("softswitch.python.tables", "softswitch.native.engine"),
    ],
)
def test_an_import_that_points_upward_or_sideways_is_found(module: str, target: str) -> None:
    assert upward(package_of(module), {module: {target}}) == [f"{module} -> {target}"]
    assert upward(package_of(module), {target: {module}}) == (
        [] if "native" not in target else [f"{target} -> {module}"]
    )


def test_a_circle_is_found() -> None:
    found = circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert set(found) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "code",
    [
        "import sumwire.wire.batch",
        "from sumwire.wire.batch import Sender",
        "from sumwire.wire import batch",
        "def f():\n    from sumwire.wire import batch",
        "if TYPE_CHECKING:\n    from sumwire.wire.batch import Sender",
        "importlib.import_module('sumwire.wire.batch')",
    ],
)
def test_every_form_of_import_is_found(code: str) -> None:
    assert list(imported(ast.parse(code), MODULES)) == ["sumwire.wire.batch"]


@pytest.mark.parametrize(
    "code",
    [
        "__import__('sumwire.cli')",
        "builtins.__import__('sumwire.cli')",
        "import_module(name)",
        "importlib.import_module('sumwire.' + 'cli')",
        "import_module(f'sumwire.{name}')",
        "import_module('.cli', 'sumwire')",
        "list(map(import_module, names))",
        "from importlib import import_module as load",
    ],
)
def test_a_hidden_import_is_found(code: str) -> None:
    assert hidden_imports(ast.parse(code), facade=True) == [1]


def test_a_facade_may_compute_names_below_its_own() -> None:
    tree = ast.parse("import_module(f'{__name__}.{_HOMES[name]}')")
    assert hidden_imports(tree, facade=True) == []
    assert hidden_imports(tree, facade=False) == [1]
