# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Commands, configurations and job files that README and the pages print.

Cheap commands run as printed. Of the others every option must be one of the program's, and every make target and
variable one of the Makefile's.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sumwire_controller
import yaml
from helpers.controller.real_switches import soft_switch
from helpers.docs import pages
from helpers.paths import ROOT
from softswitch.switch import SoftSwitch
from sumwire.config import parse_job
from sumwire_lab.options.layout import parse as parse_layout
from sumwire_lab.run.grid import known_flags

# Their modules, each with a `main(arguments)`.
PROGRAMS = {
    "sumwire": "sumwire.cli",
    "sumwire-aggregator": "sumwire.aggregator.cli",
    "sumwire-controller": "sumwire_controller.cli",
    "sumwire-lab": "sumwire_lab.cli",
    "softswitch": "softswitch.cli",
    "softswitch-cli": "softswitch.cli_door.cli",
}
WITH_COMMANDS = ("sumwire", "sumwire-controller", "sumwire-lab")
# By the readers of tutorials.
WRITTEN = ("examples/my_codec.py", "examples/or32.py", "check.py", "why.py")
OTHERS = ("make", "python", "pytest")
_VARIABLE = re.compile(r"^([A-Z_]+) \?=", re.MULTILINE)
EXAMPLES = ROOT / "controller" / "examples"


def printed() -> list[str]:
    """Each command line once: lines of blocks without a language, and code spans, that begin with a known program."""
    lines = [
        line.removeprefix("$ ").removeprefix(".venv/bin/")
        for block in pages.blocks("")
        for line in block.text.splitlines()
    ]
    lines += [code for _, code in pages.inline_code()]
    known = {*PROGRAMS, *OTHERS}
    found = dict.fromkeys(line.split("#")[0].strip() for line in lines)
    return [line for line in found if line.partition(" ")[0] in known and " " in line]


def main_of(program: str) -> Callable[[list[str]], int]:
    main: Callable[[list[str]], int] = importlib.import_module(PROGRAMS[program]).main
    return main


@cache
def help_of(program: str, command: str | None) -> str:
    """What --help prints, of a program or of one of its commands."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), pytest.raises(SystemExit) as ended:
        main_of(program)([*(command.split() if command else []), "--help"])
    assert ended.value.code == 0
    return output.getvalue()


def check_options(program: str, words: list[str]) -> None:
    """Every option in ``words`` is one that the program, or its command, explains."""
    named = [word for word in words if not word.startswith("-")]
    # Each benchmark and each topic has options of its own.
    command = " ".join(named[: 2 if named[:1] in (["bench"], ["verify"]) else 1]) or None
    explained = help_of(program, None) + help_of(program, command if program in WITH_COMMANDS else None)
    for word in words:
        option = word.strip("[].").partition("=")[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", option):
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", explained), f"{program}: no option {option}"


def check_make(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    variables = set(_VARIABLE.findall(makefile))
    assignments = [word for word in words if "=" in word]
    assert {word.partition("=")[0] for word in assignments} <= variables
    for word in assignments:
        if word.startswith("PYTEST_FLAGS="):
            check_pytest(shlex.split(word.partition("=")[2]))
    # Prints the commands that it would run.
    told = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    for line in told.stdout.replace("\\\n", " ").splitlines():
        if "-m sumwire_lab " in line:
            check_options("sumwire-lab", shlex.split(line.partition("-m sumwire_lab ")[2]))


def check_pytest(words: list[str]) -> None:
    """Every path exists."""
    values = {after for option, after in pairwise(words) if option in ("-k", "-n")}
    for word in words:
        if not word.startswith("-") and word not in values:
            assert (ROOT / word).exists(), word


def check_python(words: list[str]) -> None:
    if words in (["-m"], ["-P"]):
        return
    if words[0] == "-m":
        assert importlib.util.find_spec(words[1]) is not None
        if words[1] == "sumwire_lab":
            check_options("sumwire-lab", words[2:])
        elif words[1] == "pytest":
            check_pytest(words[2:])
    elif "NAME" not in words[0] and words[0] not in WRITTEN:
        assert (ROOT / words[0]).exists()


@pytest.mark.parametrize("line", printed())
def test_command_exists(line: str) -> None:
    program, *words = shlex.split(re.sub(r"  +.*", "", line))
    if program == "make":
        check_make(words)
    elif program == "python":
        check_python(words)
    elif program == "pytest":
        check_pytest(words)
    else:
        check_options(program, words)


def test_enough_commands_are_found() -> None:
    """The parsing of pages has not broken down."""
    assert len(printed()) > 40


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with the files that commands on README name."""
    shutil.copytree(EXAMPLES, tmp_path / "controller" / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands_of(name: str) -> list[list[str]]:
    [block] = [block for block in pages.blocks("") if block.name == name]
    return [shlex.split(line, comments=True) for line in block.text.splitlines()]


def test_readmes_controller_commands_run(checkout: Path) -> None:
    star = checkout / "controller" / "examples" / "star4.yaml"
    with soft_switch(SoftSwitch(engine="python")) as address:
        star.write_text(star.read_text().replace("127.0.0.1:9559", address))
        for program, *arguments in commands_of("README.md: In your training loop (2)"):
            assert main_of(program)(arguments) == 0
    described = json.loads((checkout / "digits.json").read_text())
    assert parse_job(described, 0).name == "digits"


def test_inspect_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for program, *arguments in commands_of("dlcp.md: The default policy"):
        assert main_of(program)(arguments) == 0
    table = capsys.readouterr().out
    # The page's summary rounds these.
    lanes = (("6,308,928", "6,180"), ("6,172,672", "6,030"), ("6,563,840", "6,410"), ("6,511,592", "6,359"))
    for values, packets in lanes:
        assert re.search(rf"{values} +{packets}", table)


def test_job_files_on_pages_are_valid() -> None:
    # That of watch.md is a log line.
    found = [block for block in pages.blocks("json") if block.path.name != "watch.md"]
    assert {block.path.name for block in found} == {"aggregator.md", "controller.md", "start.md"}
    for block in found:
        described = json.loads(block.text)
        for worker in range(parse_job(described, 0).workers):
            assert parse_job(described, worker).worker == worker


def _completed(fragment: dict[str, list[dict[str, Any]]], whole: dict[str, Any], key_of: dict[str, str]) -> None:
    """Put the fragment's entries in place of those of the same name."""
    for section, entries in fragment.items():
        for entry in entries:
            key = key_of.get(section, "name")
            others = [other for other in whole.get(section, []) if other[key] != entry[key]]
            kept = [other for other in whole.get(section, []) if other[key] == entry[key] and section == "links"][1:]
            whole[section] = [entry, *kept, *others]


def test_yaml_on_pages_is_valid() -> None:
    blind, star, long, network, own, _rates, study = pages.blocks("yaml")
    whole = yaml.safe_load((EXAMPLES / "star4.yaml").read_text())
    _completed(yaml.safe_load(star.text), whole, {"queues": "port"})
    assert len(sumwire_controller.parse_config(yaml.safe_dump(whole)).queues) == 1

    whole = yaml.safe_load((EXAMPLES / "star4.yaml").read_text()) | yaml.safe_load(blind.text)
    assert sumwire_controller.parse_config(yaml.safe_dump(whole)).jobs[0].blind

    whole = yaml.safe_load((EXAMPLES / "star4.yaml").read_text()) | {"jobs": yaml.safe_load(long.text)}
    assert "jumbo" in sumwire_controller.parse_config(yaml.safe_dump(whole)).jobs[0].ops

    whole = yaml.safe_load((EXAMPLES / "leaf-spine8.yaml").read_text())
    _completed(yaml.safe_load(network.text), whole, {"links": "from", "queues": "port"})
    layout = parse_layout(own.text, own.name)
    assert [(host.switch, host.mbit) for host in layout.hosts] == [("left", None)] * 3 + [("right", 10)]

    assert set(yaml.safe_load(study.text)["grid"]) <= set(known_flags())

    topology = sumwire_controller.parse_topology(yaml.safe_dump(whole))
    assert [len(job.workers) for job in topology.jobs] == [3, 3]
