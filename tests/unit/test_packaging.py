# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Files of packaging/ agree with each other and with the programs that they start, and prebuilt kernels are chosen."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from helpers.paths import ROOT
from nativelib import NoCompilerError, prebuilt
from sumwire.aggregator import cli as aggregator
from sumwire.doctor import machine
from sumwire.doctor.findings import GOOD, NOTE
from sumwire_controller import cli as controller
from sumwire_protocol import constants as p4

CONTAINERS = ROOT / "packaging" / "containers"
_SPEC = importlib.util.spec_from_file_location("release", ROOT / "packaging" / "release.py")
assert _SPEC is not None and _SPEC.loader is not None
release = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(release)
V2 = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
V3 = f"{V2} abm avx avx2 bmi1 bmi2 f16c fma movbe"


def test_images_and_services_have_the_same_roles() -> None:
    text = (CONTAINERS / "Containerfile").read_text()
    targets = set(re.findall(r"^FROM base AS (\w+)$", text, re.MULTILINE))
    installed = set(re.findall(r"install\.sh (\w+) ", text))
    known = set(re.findall(r"^  (\w+)\) extra=", (CONTAINERS / "install.sh").read_text(), re.MULTILINE))
    services = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())["services"]
    assert targets == installed == known == set(services)
    for name, service in services.items():
        assert service["build"]["target"] == name and (CONTAINERS / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()
        assert service["cap_drop"] == ["ALL"] and service["read_only"]
        assert name == "switch" or "cap_add" not in service


def test_services_start_with_options_that_the_programs_have() -> None:
    services = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())["services"]
    parsed = aggregator._parser().parse_args(services["aggregator"]["command"])
    assert (parsed.jobs, parsed.report) == (["/etc/sumwire/job.json"], 60.0)
    assert controller._parser().parse_args(services["controller"]["command"]).command == "apply"


def test_the_unit_starts_the_aggregator_at_its_port() -> None:
    text = (ROOT / "packaging" / "systemd" / "sumwire-aggregator@.service").read_text()
    [command] = re.findall(r"^ExecStart=\S+/sumwire-aggregator (.*)$", text, re.MULTILINE)
    options = aggregator._parser().parse_args(command.split())
    assert (options.report, options.jobs, options.key) == (60.0, ["%d/job.json"], "%d/job.key")
    # The service's user cannot open them itself.
    assert re.findall(r"^LoadCredential=(\S+):(\S+)$", text, re.MULTILINE) == [
        ("job.json", "/etc/sumwire/%i.json"),
        ("job.key", "/etc/sumwire/%i.key"),
    ]
    # By systemd.exec(5) a credential with such a default need not be there.
    assert re.findall(r"^SetCredential=(\S+?):", text, re.MULTILINE) == ["job.key"]
    assert f"SocketBindAllow=ipv4:udp:{p4.SUMWIRE_PORT}" in text


@pytest.mark.parametrize(
    ("machine", "features", "levels"),
    [
        ("x86_64", V2, ["x86-64-v2"]),
        ("x86_64", V3, ["x86-64-v3", "x86-64-v2"]),
        ("x86_64", V3.replace("movbe", ""), ["x86-64-v2"]),
        ("x86_64", "fpu", []),
        ("aarch64", "fp asimd", ["armv8-a"]),
        ("riscv64", V3, []),
    ],
)
def test_levels_that_a_processor_has(machine: str, features: str, levels: list[str]) -> None:
    assert [*prebuilt._suitable(machine, frozenset(features.split()))] == levels


def test_a_prebuilt_library_needs_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best level counts; one without its checksum, or with another one, is as if it were not there."""
    monkeypatch.setattr(prebuilt, "FOLDER", tmp_path)
    monkeypatch.setattr(prebuilt, "_levels", lambda: ("new", "old"))
    for level in ("new", "old"):
        (tmp_path / level).mkdir()
        file = tmp_path / level / prebuilt.name_of("demo", "ab" * 32)
        file.write_bytes(level.encode())
        file.with_name(file.name + ".sha256").write_text(hashlib.sha256(level.encode()).hexdigest())
    new, old = (tmp_path / level / f"demo-{'ab' * 16}.so" for level in ("new", "old"))
    assert prebuilt.find("demo", "ab" * 32) == new
    assert prebuilt.find("demo", "cd" * 32) is None
    assert prebuilt.level() == "new"
    new.write_bytes(b"else")
    assert prebuilt.find("demo", "ab" * 32) == old


def test_a_doctor_wants_no_compiler_where_kernels_came_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise NoCompilerError("no C compiler; install clang")

    monkeypatch.setattr(machine, "find_compiler", none)
    monkeypatch.setattr(machine, "prebuilt_level", lambda: "x86-64-v3")
    found = machine._compiler()
    assert (found.state, "x86-64-v3" in found.text) == (GOOD, True)
    monkeypatch.setattr(machine, "prebuilt_level", lambda: None)
    assert machine._compiler().state == NOTE


def test_the_version_is_that_of_the_newest_entry_of_the_changelog() -> None:
    assert release.disagreements(release.version(), (ROOT / "CHANGELOG.md").read_text()) == []


@pytest.mark.parametrize(
    ("changelog", "said"),
    [
        ("## [Unreleased]\n\n- one\n", "the newest entry is '[Unreleased]'"),
        ("## [1.2.3]\n", "name it '[1.2.3] - YYYY-MM-DD'"),
        ("## [1.2.4] - 2026-01-01\n## [1.2.3] - 2026-01-01\n", "the newest entry is '[1.2.4]"),
        ("## [1.2.3] - 2026-01-01\n" + "- one\n" * 121, "121 lines; shorten it to 120"),
        ("", "the newest entry is ''"),
    ],
)
def test_a_release_needs_a_short_dated_entry(changelog: str, said: str) -> None:
    [problem] = release.disagreements("1.2.3", changelog)
    assert said in problem


def test_what_a_python_lacks_to_build_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "packaging" / "wheels.py")
    assert spec is not None and spec.loader is not None
    wheels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheels)
    assert wheels.lacking() == []
    known = {"setuptools": "66.1.1", "numpy": "2.0.0"}

    def version(name: str) -> str:
        if name not in known:
            raise metadata.PackageNotFoundError(name)
        return known[name]

    monkeypatch.setattr(wheels.metadata, "version", version)
    assert wheels.lacking() == ["setuptools>=77", "torch>=2.6"]
