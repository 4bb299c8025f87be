# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What another user left at twelve places, of which each has been run by some program, is not run by ours.

Where tests run as root, user nobody plants it. Elsewhere it is in folders that everybody may write.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from helpers.fuzz_files import JOB
from helpers.paths import ROOT
from helpers.rights import NOBODY
from helpers.transport.udp_bridge import addresses
from nativelib import NoCompilerError, build
from sumwire.config import parse_job
from sumwire.job.tuning import tuning_path

PACKAGES = os.pathsep.join(str(ROOT / one) for one in ("protocol", "host", "native", "controller", "mininet", "switch"))
NAMES = ("sumwire", "numpy", "torch", "multiprocessing", "sumwire_controller", "sumwire_lab", "sumwire_protocol")
PROGRAMS = ("ssh", "cc", "ld", "as", "sumwire-controller")
OWN, PLANTED = 41, 666
DEMO = {"demo.c": f"int answer(void) {{ return {OWN}; }}\n"}
EVIL = """
#include <stdio.h>
__attribute__((constructor)) static void run(void) {{
    FILE *file = fopen("{ran}", "a");
    if (file) fputs("library\\n", file), fclose(file);
}}
int answer(void) {{ return {answer}; }}
"""
# Only the owner tells it from a good one.
TUNING = {"format": 1, "aggregators": ["10.0.0.100"], "workers": 2, "backend": "gloo"}
TUNING |= {"codecs": {"thc": [[1000, 0.001, 0.002]]}}

AGGREGATOR = """
from sumwire.start.supervisor import RunningAggregator, here
aggregator = RunningAggregator(here(), {}, print)
while not aggregator.has_ended: pass
"""
STATUS = """
from pathlib import Path
from sumwire.doctor.controller import ControllerStatus
with ControllerStatus(Path("/nowhere.yaml"), None) as status: print(list(status.findings()))
"""
# As the commands of this project do before they start anything.
SPAWNED = """
import multiprocessing
from nativelib import programs
if __name__ == "__main__":
    programs.close_environment()
    for method in ("spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=print, args=("child",))
        process.start()
        process.join()
        assert process.exitcode == 0
"""
COMPILED = f"""
from nativelib import NativeError, build, load
try: print(load(build("demo", [], generated={DEMO!r})).answer())
except NativeError as error: print(error)
"""
FOUND = """
from sumwire.start import supervisor, up
from sumwire.start.errors import StartError
for each in (SSH, lambda: up._controller("apply", "x.yaml")):
    try: each()
    except StartError as error: print(error)
"""
SSH = """
from sumwire.start import supervisor
SSH = lambda: supervisor.RunningAggregator(supervisor.by_ssh("b", "true"), {}, print)
"""
# A Python that is no virtual environment's looks into its user's home.
BASE = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
CHILD = f"import subprocess\nfrom nativelib import programs\nsubprocess.run([{BASE!r}, '-P', '-c', 'pass'], env=ENV)\n"
TUNED = f"""
from sumwire.config import parse_job
from sumwire.job.tuning import load_table
print(load_table(parse_job({JOB!r}, 0)))
"""
TOLD = """
import numpy as np
from types import SimpleNamespace
from sumwire.training.outer import broadcast_state
told = open("checkpoint.pt", "rb").read()
job = SimpleNamespace(
    workers=2, config=SimpleNamespace(quorum=2, worker=1), max32=lambda *_: [len(told)],
    sum32=lambda *_: np.frombuffer(told.ljust(-(-len(told) // 4) * 4, bytes(1)), np.int32),
)
try: broadcast_state(job, 0, None)
except Exception as error: print(error)
"""
LOADED = "import ctypes, glob\nctypes.CDLL(glob.glob(os.environ['NATIVELIB_CACHE'] + '/demo-*.so')[0])\n"
SHELL = "import subprocess\nsubprocess.run({!r}, shell=True, check=False)\n"


@dataclass(frozen=True)
class Place:
    """``victims``: what our programs do. ``careless``: what runs what is planted. ``refused``: what is said, by name;
    "" of a place where nobody looks. ``variables``: {shared} is the folder."""

    victims: Mapping[str, str]
    careless: str
    refused: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


# A cache that cannot be used, so that the compiler runs.
ANEW = {"NATIVELIB_CACHE": "{shared}/cache"}
PLACES = {
    "working directory": Place(
        {"rank0": AGGREGATOR, "multiprocessing": SPAWNED, "doctor": STATUS}, SHELL.format(f"{sys.executable} -m numpy")
    ),
    "script's folder": Place(
        {"rank0": AGGREGATOR, "multiprocessing": SPAWNED, "doctor": STATUS},
        SHELL.format(f"{sys.executable} careless.py"),
    ),
    "cache": Place(
        {"kernels": COMPILED}, LOADED, r"is not kept: .*/cache: belongs to user", {"NATIVELIB_CACHE": "{shared}/cache"}
    ),
    "tmp": Place(
        {"kernels": COMPILED},
        LOADED,
        r"/tmp.*: belongs to user",
        {"NATIVELIB_CACHE": "{shared}/tmp/cache", "TMPDIR": "{shared}/tmp"},
    ),
    "HOME of another": Place(
        {"child": CHILD.replace("ENV", "programs.environment()")},
        CHILD.replace("ENV", "None"),
        "HOME: .*/home is left out",
        {"HOME": "{shared}/home"},
    ),
    "PATH": Place(
        {"started": SSH + FOUND, "kernels": "os.environ.pop('CC', 0)\n" + COMPILED},
        SHELL.format("ssh -V"),
        r"/ssh: not run: .* belongs to user|PATH: .* is left out",
        {"PATH": "{shared}:{PATH}"} | ANEW,
    ),
    "PYTHONPATH": Place(
        {"rank0": AGGREGATOR, "doctor": STATUS},
        SHELL.format(f"{sys.executable} -P -c 'import numpy'"),
        "PYTHONPATH: .* is left out",
        {"PYTHONPATH": "{shared}:{PYTHONPATH}"},
    ),
    "CC": Place({"kernels": COMPILED}, SHELL.format("$CC"), r"/cc: not run: .* belongs to user", {"CC": "{shared}/cc"}),
    "LD_*": Place(
        {"rank0": AGGREGATOR, "kernels": COMPILED},
        SHELL.format("/bin/true"),
        r"LD_PRELOAD: .*planted.so is left out",
        {"LD_PRELOAD": "{shared}/planted.so", "LD_AUDIT": "{shared}/planted.so", "LD_LIBRARY_PATH": "{shared}"} | ANEW,
    ),
    "ssh config": Place(
        {"ssh": SSH + "aggregator = SSH()\nwhile not aggregator.has_ended: pass\n"},
        SHELL.format("ssh -F $HOME/.ssh/config -G b"),
        "HOME: .*/home is left out",
        {"HOME": "{shared}/home"},
    ),
    "tuning table": Place(
        {"job": TUNED},
        "open('ran', 'w').write('used') if json.load(open(TABLE)) else 0\n",
        r"tuning-\w+.json is ignored: .* belongs to user",
        {"XDG_CACHE_HOME": "{shared}/home/.cache"},
    ),
    "checkpoint": Place(
        {"told": TOLD},
        "import torch\ntorch.load('checkpoint.pt', weights_only=False)\n",
        r"(?s)Weights only load failed.*system",
    ),
}


class Runs:
    """An object whose pickle runs a command."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self._command,)


def write_tree(tree: Path, ran: Path) -> None:
    """All that is planted; what of it is run adds a line to the file ``ran``."""
    code = f'import os, sys\nopen("{ran}", "a").write(f"{{__name__}} {{os.getuid()}} {{sys.orig_argv}}\\n")\n'
    for name in NAMES:
        (tree / name).mkdir(parents=True)
        (tree / name / "__init__.py").write_text(code)
        (tree / f"{name}.py").write_text(code)
    (tree / "careless.py").write_text("import numpy\n")
    for name in PROGRAMS:
        (tree / name).write_text(f'#!/bin/sh\necho "$0" >>{ran}\n')
    site = tree / "home" / ".local" / "lib" / Path(BASE).name / "site-packages"
    site.mkdir(parents=True)
    (site / "usercustomize.py").write_text(code)
    (tree / "home" / ".ssh").mkdir()
    (tree / "home" / ".ssh" / "config").write_text(f'Match exec "echo ssh >>{ran}"\n  User x\n')
    (tree / "home" / ".cache" / "sumwire").mkdir(parents=True)
    (tree / "home" / ".cache" / "sumwire" / tuning_path(parse_job(JOB, 0)).name).write_text(json.dumps(TUNING))
    torch.save({"model": Runs(f"echo checkpoint >>{ran}")}, tree / "checkpoint.pt")


def write_libraries(tree: Path, ran: Path) -> None:
    """A library in the place of one of ours, with the right checksum."""
    demo = build("demo", [], generated=DEMO)
    planted = build("planted", [], generated={"planted.c": EVIL.format(ran=ran, answer=PLANTED)})
    shutil.copy(planted, tree / "planted.so")
    for cache in (tree / "cache", tree / "tmp" / "cache"):
        cache.mkdir(parents=True)
        shutil.copy(planted, cache / demo.name)
        (cache / f"{demo.name}.sha256").write_text(hashlib.sha256(planted.read_bytes()).hexdigest())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that everybody may write, in which another user has planted all of it."""
    with tempfile.TemporaryDirectory(prefix="sumwire-planted-") as name, pytest.MonkeyPatch.context() as patch:
        Path(name).chmod(0o755)
        folder, tree = Path(name, "shared"), tmp_path_factory.mktemp("tree")
        folder.mkdir()
        folder.chmod(0o1777)
        patch.setenv("NATIVELIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        write_tree(tree, folder / "ran")
        with contextlib.suppress(NoCompilerError):
            write_libraries(tree, folder / "ran")
        for path in tree.rglob("*"):
            path.chmod(0o777)
        packed = subprocess.run(
            ["tar", "-c", "-C", tree, *(path.name for path in tree.iterdir())], capture_output=True, check=True
        ).stdout
        who = {"user": NOBODY.pw_uid, "group": NOBODY.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        command = ["tar", "-x", "-p", "--no-same-owner"]
        subprocess.run(command, cwd=folder, input=packed, check=True, **who)  # type: ignore[call-overload]
        yield folder


def said_by(code: str, place: Place, shared: Path, script: Path | None = None) -> str:
    """What a process says. Its variables change when it runs already: what its user gave it is its user's affair."""
    ran = shared / "ran"
    ran.unlink(missing_ok=True)
    given = {**os.environ, "PYTHONPATH": PACKAGES}
    given.pop("PYTHONSAFEPATH", None)
    known = {"shared": str(shared), "PATH": given["PATH"], "PYTHONPATH": PACKAGES}
    variables = {name: value.format(**known) for name, value in place.variables.items()}
    begin = f"import json, logging, os\nlogging.basicConfig()\nos.environ.update({variables!r})\n"
    table = next((shared / "home" / ".cache" / "sumwire").iterdir())
    text = f"{begin}TABLE = {str(table)!r}\n{code}"
    words = ["-P", "-c", text]
    if script is not None:
        script.write_text(f"import sys\ndel sys.path[0]\n{text}" if script.parent == shared else text)
        words = [str(script)]
    done = subprocess.run(
        [sys.executable, *words], cwd=shared, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def needed(name: str, place: Place, shared: Path) -> None:
    text = "".join((*place.victims.values(), place.careless))
    if name in ("cache", "tmp", "LD_*", "CC") and not (shared / "planted.so").exists():
        pytest.skip("no compiler")
    if name == "ssh config" and shutil.which("ssh") is None:
        pytest.skip("no ssh")
    if BASE in text and not Path(BASE).exists():
        pytest.skip(f"{BASE} is not there")


@pytest.mark.parametrize(
    ("name", "victim"), [(name, victim) for name, place in PLACES.items() for victim in place.victims]
)
@pytest.mark.few(5)
def test_what_is_planted_never_runs(name: str, victim: str, shared: Path, tmp_path: Path) -> None:
    place = PLACES[name]
    needed(name, place, shared)
    # The script's own folder, which its imports come from, is its user's affair. What it starts does not have it.
    folders = (tmp_path, shared) if name == "script's folder" else (None,)
    for folder in folders:
        said = said_by(place.victims[victim], place, shared, folder / "script.py" if folder else None)
        ran = shared / "ran"
        assert not ran.exists(), ran.read_text()
        assert re.search(place.refused, said), said
        assert str(PLANTED) not in said.split()


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.few(4)
def test_it_would_run(name: str, shared: Path) -> None:
    """By a program that does not look: what is planted is whole."""
    needed(name, PLACES[name], shared)
    said_by(PLACES[name].careless, PLACES[name], shared)
    assert (shared / "ran").exists()


@pytest.mark.parametrize("paths", ["", ":"], ids=["", "an empty part in PYTHONPATH"])
def test_sumwire_up(paths: str, shared: Path) -> None:
    (shared / "ran").unlink(missing_ok=True)
    aggregator, ips = addresses(2)
    words = ["up", "--hosts", ",".join(ips), "--aggregator", aggregator, "--listen", f"{aggregator}:21334"]
    # This process's own look into the working directory would be its user's affair.
    code = f"import sys, os; os.environ['PYTHONPATH'] += {paths!r}; from sumwire import cli; sys.exit(cli.main())"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code, *words], cwd=shared, env={**os.environ, "PYTHONPATH": PACKAGES},
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert any("ready: " in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    assert not (shared / "ran").exists(), (shared / "ran").read_text()
