# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Exercises of p4lang/tutorials on the soft switch: ``python -m fuzz.samples.exercises CHECKOUT --work FOLDER``.

Each has its own Mininet harness or PTF test, its own controller and its solution; the soft switch comes as the commands
of its distribution. Nothing of the checkout is changed: exercises run in a copy. Each runs in namespaces of its own, so
that nothing outlives it. The last line is a JSON object: what came of each, "ok" or what is missing from its output; or
under "absent" what this machine lacks. Needs root, Mininet, p4c-bm2-ss, p4c and protoc.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from helpers.wheel.environment import build_switch_wheel, run
from sumwire_lab.system.environments import AbsentError, python_with

TOOLS: Final = ("mn", "p4c-bm2-ss", "p4c", "protoc", "make", "unshare", "ping")
# What the harness, its controllers and PTF tests import. Later versions of protobuf refuse the harness's own modules.
_SHELL: Final = "0.0.6"
_PACKAGES: Final = ("scapy==2.6.1", "psutil==7.0.0", "ptf==0.10.0", "protobuf<3.21")
_MININET: Final = Path("/usr/lib/python3/dist-packages/mininet")
# The harness imports it; it comes with bmv2's P4Runtime, and is in no package index.
_DEVICE_CONFIG: Final = """syntax = "proto3";
package p4.tmp;
message P4DeviceConfig { bool reassign = 1; bytes device_data = 3; }
"""
_RUN_S: Final = 240.0
_NOTHING_LOST: Final = r"Results: 0% dropped"
_TESTED: Final = r"\nOK\b"


@dataclass(frozen=True)
class Exercise:
    """One way to run an exercise. ``shown``: regular expressions that its output must have. ``commands``: for Mininet's
    command line; without any the exercise's PTF test runs."""

    folder: str
    shown: tuple[str, ...]
    commands: tuple[str, ...] = ()


def _until(file: str, text: str) -> str:
    """A command: waits for a text in a file."""
    return f"sh timeout 30 sh -c 'until grep -q \"{text}\" {file}; do sleep 0.2; done'"


def _receives(host: str) -> tuple[str, ...]:
    """Commands: the exercise's receive.py runs at a host, and has begun."""
    file = f"{host}.txt"
    return f"{host} timeout 60 python3 -u receive.py > {file} 2>&1 &", _until(file, "sniffing")


def _shown_by(host: str, text: str) -> tuple[str, ...]:
    """Commands: what a host has received, once that has this text."""
    return _until(f"{host}.txt", text), f"sh cat {host}.txt"


def _controller(text: str, *meanwhile: str) -> tuple[str, ...]:
    """Commands, during which the exercise's mycontroller.py runs until it has told this text."""
    begin = "sh timeout 90 python3 -u mycontroller.py > told.txt 2>&1 &"
    return begin, *meanwhile, _until("told.txt", text), "sh cat told.txt"


def _connects(host: str, address: str) -> str:
    """A command: whether a host reaches the web server at an address, once that has begun."""
    reach = f"until (exec 3<>/dev/tcp/{address}/80) 2>&-; do sleep 0.2; done"
    # Mininet replaces a host's name by its address where it is a word.
    return f"{host} timeout 10 bash -c '{reach}' && echo {host}-gets-{address} || echo {host}-lacks-{address}"


_COOL: Final = "P4 is cool"
EXERCISES: Final = (
    Exercise("basic", (_NOTHING_LOST,), ("pingall",)),
    Exercise("basic", (_TESTED,)),
    Exercise("basic_tunnel", (_NOTHING_LOST,), ("pingall",)),
    Exercise("basic_tunnel", (_TESTED,)),
    Exercise(
        "calc", (r"7\+35\s+42\b", r"12&10\s+8\b"), (r"h1 printf '7+35\n12&10\nquit\n' | python3 calc.py",)
    ),
    Exercise("ecn", (_NOTHING_LOST,), ("pingall",)),
    Exercise(
        "firewall",
        (_NOTHING_LOST, "h1-gets-10.0.3.3", "h2-gets-10.0.1.1", "h3-lacks-10.0.1.1"),
        (
            "pingall",
            *(f"{host} python3 -m http.server 80 > {host}.txt 2>&1 &" for host in ("h1", "h3")),
            _connects("h1", "10.0.3.3"), _connects("h2", "10.0.1.1"), _connects("h3", "10.0.1.1"),
        ),
    ),
    Exercise(
        "flowcache", (r" [1-3] received", r"(?i)packet ?in"), _controller("", "h1 ping -c 3 -w 60 h2")
    ),
    Exercise(
        "link_monitor",
        (r"Switch 1 - Port 4: \S*[1-9]\S* Mbps", r"Switch 4 - Port 2: \S*[1-9]\S* Mbps"),
        (*_receives("h1"), "h1 timeout 20 python3 send.py > sent.txt 2>&1 &", *_shown_by("h1", "Switch 4")),
    ),
    Exercise(
        "load_balance",
        (r"h2.txt:[1-9]", r"h3.txt:[1-9]"),
        (
            *_receives("h2"), *_receives("h3"), *[f"h1 python3 send.py 10.0.0.1 '{_COOL}'"] * 12,
            _until("h2.txt", _COOL), _until("h3.txt", _COOL), "sh grep -c cool h2.txt h3.txt",
        ),
    ),
    Exercise(
        "mri",
        (_NOTHING_LOST, r"swid += 2", r"swid += 1"),
        ("pingall", *_receives("h2"), f"h1 python3 send.py 10.0.2.2 '{_COOL}' 1", *_shown_by("h2", "swid")),
    ),
    Exercise("multicast", (_NOTHING_LOST,), ("pingall",)),
    Exercise(
        "p4runtime",
        (r" 1 received", r"s1 MyIngress.ingressTunnelCounter 100: \d+ packets", r"MyIngress.myTunnel_exact"),
        _controller("Reading tunnel counters", "h1 ping -c 1 -w 40 h2"),
    ),
    Exercise(
        "qos",
        (r"tos += 0xb9",),
        (*_receives("h2"), "h1 python3 send.py --p=UDP --des=10.0.2.2 --m=cool --dur=3", *_shown_by("h2", "0xb9")),
    ),
    Exercise(
        "source_routing",
        (r"got a packet", r"ttl += 59"),
        (
            *_receives("h2"), r"h1 printf '2 3 2 2 1\nq\n' | python3 send.py 10.0.2.2",
            *_shown_by("h2", "got a packet"),
        ),
    ),
)  # fmt: skip


def missing() -> str:
    """What this machine lacks, empty if nothing."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)}: not on PATH"
    return "" if os.geteuid() == 0 else "Mininet needs root"


def ready(work: Path) -> Path:
    """An environment's folder of commands, with the harness's packages and the soft switch's distribution. Raises
    AbsentError."""
    python = python_with("p4runtime-shell", _SHELL, *_PACKAGES)
    shutil.rmtree(work / "wheel", ignore_errors=True)
    wheel = build_switch_wheel(work / "wheel")
    run([str(python), "-I", "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel)], work)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run([str(python), "-I", "-c", where], work).strip())
    if not (packages / "mininet").exists():
        (packages / "mininet").symlink_to(_MININET)
    (work / "p4/tmp").mkdir(parents=True, exist_ok=True)
    (work / "p4/tmp/p4config.proto").write_text(_DEVICE_CONFIG)
    run(["protoc", f"--python_out={packages}", "p4/tmp/p4config.proto"], work)
    # Root needs no sudo, and machines without it have none.
    sudo = python.parent / "sudo"
    sudo.write_text('#!/bin/sh\nexec env "$@"\n')
    sudo.chmod(0o755)
    return python.parent


def played(exercise: Exercise, checkout: Path, work: Path, commands: Path) -> str:
    """What an exercise's run in a copy of the checkout printed."""
    copy = work / "checkout"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    folder = copy / "exercises" / exercise.folder
    if exercise.commands:
        solve(folder)
    (folder / "logs").mkdir(exist_ok=True)  # the PTF tests write there
    # A harness finds its modules as from a shell: beside its scripts.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = f"{commands}:{os.environ['PATH']}"
    inside = ["sh", "-c", f"ip link set lo up && exec make {'run' if exercise.commands else 'test'}"]
    done = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", *inside],
        cwd=folder,
        env=environment,
        input="".join(f"{command}\n" for command in exercise.commands),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_RUN_S,
        check=False,
    )
    return done.stdout


def solve(folder: Path) -> None:
    """Put each file of the solution in the place of the student's."""
    for solved in sorted((folder / "solution").iterdir()):
        for own in {folder / solved.name, *folder.glob(f"*/{solved.name}")} - {solved}:
            if own.exists():
                shutil.copy(solved, own)


def lacks(exercise: Exercise, output: str) -> list[str]:
    """What output has not that it should have, or has that it should not."""
    failed = re.search(r"Traceback|FAILED|Error \d+", output)
    bad = [f"no {failed[0]}"] if failed else []
    return bad + [pattern for pattern in exercise.shown if not re.search(pattern, output)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz.samples.exercises", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of p4lang/tutorials")
    parser.add_argument("--work", type=Path, required=True, help="where they run; their outputs stay there")
    parser.add_argument("--only", default="", help="the exercise of this name")
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    found: dict[str, str] = {}
    try:
        if lacking := missing():
            raise AbsentError(lacking)
        commands = ready(options.work.resolve())
        for exercise in EXERCISES:
            if options.only in ("", exercise.folder):
                name = exercise.folder if exercise.commands else f"{exercise.folder}-ptf"
                sys.stderr.write(f"{name}\n")
                found[name] = _judged(exercise, options.checkout.resolve(), options.work.resolve(), commands, name)
    except AbsentError as error:
        found = {"absent": str(error)}
    sys.stdout.write(f"{json.dumps(found)}\n")


def _judged(exercise: Exercise, checkout: Path, work: Path, commands: Path, name: str) -> str:
    try:
        output = played(exercise, checkout, work, commands)
    except subprocess.TimeoutExpired:
        return f"no end after {_RUN_S:g} s"
    (work / f"{name}.txt").write_text(output)
    wanting = lacks(exercise, output)
    return f"its output lacks {' and '.join(wanting)}" if wanting else "ok"


if __name__ == "__main__":
    main()
