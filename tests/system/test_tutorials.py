# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every tutorial, gone through as it is printed: the files that it writes, its commands, and what they say.

All of it is long: `make verify-see` runs it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pexpect
import pytest
from helpers.docs import tutorials
from helpers.docs.tutorials import blocks_of, files_of, pattern_of, shell
from helpers.needs import missing
from helpers.paths import ROOT
from helpers.start.servers import servers
from sumwire_lab.options.run_options import RunOptions

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
SHOW = """import Path
from softswitch.trace import lines
def show(packet: dict) -> None:
    print("\\n".join(lines(packet)))
"""
COPIED = ("protocol", "host", "native", "p4src", "controller", "switch", "mininet", "tests", "examples")


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    return tutorials.bin_folder(tmp_path / "bin")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy that a tutorial may change."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def lines(name: str, language: str = "") -> list[str]:
    return [block.text for block in blocks_of(name) if block.language == language]


@pytest.mark.root
@pytest.mark.mininet
@pytest.mark.timeout(2000)
def test_first_run(tmp_path: Path) -> None:
    """`make run` is the command that make prints, without its set-up."""
    first, table = lines("first-run.md")[:2]
    # Below `make verify-see` make would name its folder in a last line.
    make = ["make", "-n", "--no-print-directory", *shlex.split(first)[1:]]
    told = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True)
    command = told.stdout.replace("\\\n", " ").strip().splitlines()[-1].partition("-m sumwire_lab")[2]
    path = tutorials.bin_folder(tmp_path / "bin")
    patience_s = RunOptions().deadline_s + 60.0
    printed = shell(f"python -m sumwire_lab {command} --results results", tmp_path, path, patience_s=patience_s)
    rows = {line[:34].strip() for line in printed.splitlines()}
    assert [line for line in table.splitlines()[1:] if line[:34].strip() not in rows] == []
    latest = tmp_path / "results" / "latest"
    for name in re.findall(r"^\| `([\w./*]+)` \|", (tutorials.FOLDER / "first-run.md").read_text(), re.MULTILINE):
        assert list(latest.glob(name)), name


@pytest.mark.root
def test_eight_servers(tmp_path: Path) -> None:
    """As network namespaces of this machine."""
    page = "eight-servers.md"
    _, up, ready, train, found = lines(page)
    (script,) = files_of(page).values()
    path = tutorials.bin_folder(tmp_path / "bin")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PATH": f"{path}:{os.environ['PATH']}", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}

    def start(server: str, line: str) -> subprocess.Popen[str]:
        words = ["ip", "netns", "exec", server, *shlex.split(line)]
        return subprocess.Popen(
            words, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    (tmp_path / "train.py").write_text(script)
    with servers(8) as names:
        service = start(names[0], up)
        assert service.stdout is not None
        assert any(line == ready for line in iter(service.stdout.readline, ""))
        trainings = [
            start(name, train.replace("--node-rank N", f"--node-rank {number}")) for number, name in enumerate(names)
        ]
        outputs = [training.communicate(timeout=600)[0] for training in trainings]
        service.terminate()
        rest, _ = service.communicate(timeout=300)
    assert [training.returncode for training in trainings] == [0] * 8, outputs
    assert re.search(pattern_of(found), outputs[0]), outputs[0]
    losses = [float(value) for value in re.findall(r"loss (\d+\.\d+)", outputs[0])]
    assert losses == sorted(losses, reverse=True)
    assert all(re.search(rf"rank {rank} has sent [1-9]\d+ packets", text) for rank, text in enumerate(outputs))
    assert rest.endswith("stopped\n")


def test_an_op(tmp_path: Path, checkout: Path) -> None:
    """Patches, files and commands in their order; the P4 switches where p4c is."""
    page = "op.md"
    path, printed, files = tutorials.bin_folder(tmp_path / "bin", checkout), "", files_of(page)
    for block in blocks_of(page):
        if block.language == "diff":
            patched = subprocess.run(
                ["patch", "-p1", "--no-backup-if-mismatch"], cwd=checkout, input=block.text, text=True,
                capture_output=True, check=False,
            )  # fmt: skip
            assert patched.returncode == 0, patched.stdout
        elif block.language in ("p4", "py"):
            (name,) = [name for name, text in files.items() if text == block.text]
            (checkout / name).write_text(block.text)
        elif not block.text.startswith(("python", "make p4")):
            assert re.search(block.text.strip().replace("[", r"\["), printed), printed
        elif "make p4" not in block.text:
            printed = shell(block.text, checkout, path)
        elif missing("p4c") is None:
            shell(block.text.replace("make p4", "python p4src/tools/build.py"), checkout, path, patience_s=800.0)
    fold = checkout / "host" / "sumwire" / "aggregator" / "native" / "fold.c"
    fold.write_text(fold.read_text().replace("REPLACE(a | b)", "REPLACE(a & b)"))
    with pytest.raises(AssertionError, match="5 failed, 5 passed"):
        shell('python -m pytest tests/packet/test_ops.py -k "or32 and aggregator"', checkout, path)


def test_a_codec(commands: Path, checkout: Path) -> None:
    printed = ""
    for block in blocks_of("codec.md"):
        if block.language:
            continue
        if block.text.startswith(("python", "sed")):
            printed = shell(block.text, checkout, commands)
        else:
            assert printed == block.text


@pytest.mark.root
@pytest.mark.mininet
@pytest.mark.timeout(2000)
def test_a_study(tmp_path: Path, commands: Path) -> None:
    """The grid with fewer of the same cases; the study in Python as it is."""
    grid, python = files_of("study.md").items()
    few = grid[1].replace("loss: [0, 0.01]", "loss: 0.01").replace("bw: [10, 30, 100]", "bw: [30, 100]")
    few = few.replace("seeds: [1, 2, 3]", "seeds: 1").replace("steps: 12", "steps: 4")
    assert few.count("[") == grid[1].count("[") - 2
    (tmp_path / grid[0]).write_text(few)
    (tmp_path / python[0]).write_text(python[1])
    in_lab, alone = lines("study.md")
    command = in_lab.removeprefix("sudo .venv/bin/")
    printed = shell(command, tmp_path, commands, patience_s=900.0)
    assert re.search(r"^powersgd +100 +\d", printed, re.MULTILINE), printed
    again = shell(command, tmp_path, commands)
    assert "loss-and-rate: 4 of 4 cases are recorded already" in again
    page = (tutorials.FOLDER / "study.md").read_text()
    for name in re.findall(r"^\| `([\w./-]+)` \|", page, re.MULTILINE):
        assert (tmp_path / "results" / "loss-and-rate" / name).exists(), name
    assert "holds  sign, 16 workers" in shell(alone, tmp_path, commands, patience_s=600.0)


def typed(page: str) -> list[tuple[str, list[str]]]:
    """What is typed at `>>>`, and what the page shows of the answer."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(lines(page, "text")).splitlines():
        if line.startswith(">>> "):
            found.append((line.removeprefix(">>> "), []))
        else:
            found[-1][1].append(line)
    return found


class Shell:
    """p4runtime-shell at a terminal."""

    PROMPT = r"\n[^\n]*>>> "

    def __init__(self, server: str, line: str, folder: Path, environment: dict[str, str]) -> None:
        words = ["netns", "exec", server, *shlex.split(line)]
        plain = {**environment, "TERM": "dumb", "PROMPT_TOOLKIT_NO_CPR": "1", "IPYTHONDIR": str(folder)}
        self._child = pexpect.spawn(
            "ip", words, env=plain, cwd=folder, encoding="utf8", timeout=60, dimensions=(60, 250)
        )
        self._child.expect(">>> ")

    def say(self, line: str) -> str:
        """The answer, without the terminal's colours."""
        self._child.sendline(line)
        self._child.expect(self.PROMPT)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._child.before)

    def leave(self) -> None:
        self._child.sendline("exit")
        self._child.close()


@pytest.mark.root
@pytest.mark.parametrize("switch", [pytest.param("simple_switch_grpc", marks=pytest.mark.bmv2), "softswitch"])
def test_a_session_with_the_switch(switch: str, tmp_path: Path, commands: Path) -> None:
    """In a network namespace, with each of the page's two switches."""
    page = "bmv2.md"
    cables, bmv2, soft, apply, shell_line, mend, away = lines(page)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, text in files_of(page).items():
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": "."}
    with servers(1) as (server,), (tmp_path / "log").open("w") as log:

        def run(text: str) -> str:
            quoted = shlex.quote(f"export PYTHONPATH=.; {text}")
            return shell(f"ip netns exec {server} bash -ec {quoted}", tmp_path, commands)

        run(cables)
        command = ["ip", "netns", "exec", server, *shlex.split(bmv2 if "simple" in switch else soft)]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            run(f"for i in $(seq 300); do ss -lnt | grep -q :9559 && break; sleep 0.1; done\n{apply}")
            terminal = Shell(server, shell_line, tmp_path, environment)
            for line, shown in typed(page):
                answer = terminal.say(line)
                at = 0
                for words in shown:
                    at = answer.find(words, at) + 1
                    assert at, (line, words, answer)
            terminal.leave()
            assert "insert worker[job=1, worker=1]" in run(mend)
            run(away)
        finally:
            process.terminate()
            process.wait(60)


class Terminal:
    """A shell with a network of its own, and its own names of namespaces: the machine may have another `h1`."""

    END = "end of what was typed"

    def __init__(self, folder: Path, commands: Path) -> None:
        own = ("PYTHONPATH", "PYTHONUNBUFFERED")
        self._environment = {name: value for name, value in os.environ.items() if name not in own}
        self._environment["PATH"] = f"{commands}:{self._environment['PATH']}"
        self._folder = folder
        self._bash = self._start(["unshare", "--net", "--mount", "--propagation", "private", "bash", "-e"])
        self.type("mkdir -p /run/netns; mount -t tmpfs names /run/netns; ip link set lo up")

    def _start(self, words: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            words, cwd=self._folder, env=self._environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def second(self, line: str) -> subprocess.Popen[str]:
        """What runs in a second terminal beside this one."""
        there = f"cd {shlex.quote(str(self._folder))}; exec {line}"
        return self._start(["nsenter", "--target", str(self._bash.pid), "--net", "--mount", "bash", "-c", there])

    def type(self, text: str) -> str:
        """What is printed meanwhile; AssertionError with it if a command fails."""
        assert self._bash.stdin is not None and self._bash.stdout is not None
        self._bash.stdin.write(f"{text}\necho {self.END}\n")
        self._bash.stdin.flush()
        printed = ""
        while (line := self._bash.stdout.readline()) != f"{self.END}\n":
            assert line, printed
            printed += line
        return printed

    def close(self) -> None:
        self._bash.kill()
        self._bash.communicate()


@pytest.fixture
def program(tmp_path: Path, commands: Path) -> Path:
    """The folder `my-program` with all files of the page."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shell(lines("p4.md")[0], tmp_path, commands)
    for name, text in files_of("p4.md").items():
        (tmp_path / "my-program" / name).write_text(text)
    return tmp_path / "my-program"


@pytest.mark.root
def test_a_p4_program(program: Path, commands: Path) -> None:
    page = "p4.md"
    _, compiled, check, why, cables, switch, fill, all_send, two_wait, others_send, *_, away = lines(page)
    checked, traced, _, entry, sums, session = lines(page, "text")
    if missing("p4c") is None:
        shell(compiled, program, commands)
    assert shell(check, program, commands) == checked
    assert shell(why, program, commands).replace("examples/p4/", "") == traced
    (program / "traced.py").write_text(
        files_of(page)["check.py"].replace("read_text())", "read_text(), trace=show)").replace("import Path\n", SHOW)
    )
    (second,) = re.findall("^packet 3:.*?^packet 4:", shell("python traced.py", program, commands), re.DOTALL | re.M)
    (told,) = re.findall(r"`(sum\.p4:\d+ Condition [^`]+)`", (tutorials.FOLDER / page).read_text())
    assert told in second

    terminal = Terminal(program, commands)
    try:
        terminal.type(cables)
        running = terminal.second(switch)
        try:
            assert running.stdout is not None
            assert any("ready" in line for line in iter(running.stdout.readline, ""))
            assert entry in terminal.type(fill)
            assert terminal.type(all_send) == sums
            two_send, look = two_wait.splitlines()
            terminal.type(f'{two_send}\nuntil echo register_read totals 7 | {look} | grep "= 40"; do :; done')
            asked = re.findall("^RuntimeCmd: (.*)", session, re.MULTILINE)
            answered = re.sub("^(RuntimeCmd: ).*\n", r"\1", session, flags=re.MULTILINE)
            assert answered in terminal.type("\n".join([f"{look} << EOF", *asked, "EOF"]))
            assert terminal.type(others_send) == sums
            running.terminate()
            assert running.wait(60) == 0
        finally:
            running.kill()
            running.communicate()
        terminal.type(away)
        assert terminal.type("ip netns; ls /sys/class/net | grep s1- || true") == ""
    finally:
        terminal.close()


@pytest.mark.root
@pytest.mark.bmv2
def test_the_p4_program_on_bmv2(program: Path, commands: Path) -> None:
    cables, _, _, all_send, *_, switch, fill, _ = lines("p4.md")[4:]
    # Its packages are those of the system's Python.
    (commands / "python3").symlink_to("/usr/bin/python3")
    client = fill.split()[0]
    if subprocess.run([commands / "python3", client, "--help"], capture_output=True, check=False).returncode:
        pytest.skip(f"{client} or its Thrift is not there")
    terminal = Terminal(program, commands)
    try:
        terminal.type(cables)
        running = terminal.second(f"{switch.strip()} > bmv2.log")
        try:
            terminal.type("until ss -lnt | grep -q :9090; do sleep 0.1; done")
            terminal.type(fill)
            assert terminal.type(all_send) == lines("p4.md", "text")[4]
        finally:
            running.kill()
            running.communicate()
    finally:
        terminal.close()
