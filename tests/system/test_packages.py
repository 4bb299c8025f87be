# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What is installed where: each extra alone, kernels that come compiled, the unit of systemd, the images' steps in a
bare Debian.

All of it is long: `make verify-ways` runs it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers.docs import pages
from helpers.paths import ROOT
from helpers.softswitch.veths import veth_pairs
from helpers.wheel.environment import build_switch_wheel, build_wheel, run
from softswitch.runtime.entries import ActionCall, Entry, Exact, Replica
from softswitch.switch import SoftSwitch

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
PACKAGING = ROOT / "packaging"
# What each brings, and must not bring; and what then works.
EXTRAS = {
    "": ("numpy", "torch", ["sumwire-aggregator", "--version"]),
    "controller": ("p4runtime", "p4runtime-shell", ["sumwire-controller", "--version"]),
    "switch": ("grpcio", "torch", ["softswitch", "--version"]),
    "blind": ("cryptography", "protobuf", ["python", "-c", "import sumwire.blind.keys"]),
    "scapy": ("scapy", "protobuf", ["python", "-c", "import sumwire_protocol.scapy_layer"]),
}
# A switch in this process, which the controller configures and reads back.
APPLIED = f"""
from pathlib import Path
import sumwire_controller
from softswitch.p4runtime.server import serve
from softswitch.switch import SoftSwitch
server = serve(SoftSwitch(engine="python"), "127.0.0.1:0", 1)
text = Path({str(ROOT / "controller" / "examples" / "star4.yaml")!r}).read_text()
config = sumwire_controller.parse_config(text.replace("127.0.0.1:9559", f"127.0.0.1:{{server.port}}"))
sumwire_controller.apply(config)
print("jobs:", [job.name for job in sumwire_controller.read_status(config).jobs])
server.stop()
"""
TRAINED_BY_RAY = """
import os
import ray, sumwire, torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

def train(config):
    rank = ray.train.get_context().get_world_rank()
    model = prepare_model(torch.nn.Linear(2000, 1))
    job = sumwire.init(aggregator="rank0")
    model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
    model(torch.full((1, 2000), float(rank))).sum().backward()
    print("gradient:", model.module.weight.grad.mean().item(), flush=True)
    job.close()

os.dup2(1, 2)  # where Ray shows what workers write there
ray.init(num_cpus=2, include_dashboard=False)
stored = RunConfig(storage_path=os.path.abspath("results"))
print(TorchTrainer(train, scaling_config=ScalingConfig(num_workers=2), run_config=stored).fit())
"""
COMMANDS = {"aggregator": "sumwire-aggregator", "switch": "softswitch", "controller": "sumwire-controller"}
COMPILED = ("wire.messages", "transport.steady", "aggregator.kernels")
KERNELS = f"""
import importlib, logging, sys
logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
for name in {COMPILED}:
    module = importlib.import_module("sumwire." + name)
    print(name, module.NATIVE.kernels() is not None)
"""
BROUGHT_BY_VENV = {"pip", "setuptools"}
EXPOSURE_MOST = 2.0
# e_machine of ELF.
ELF_AARCH64 = (183).to_bytes(2, "little")
MINUTES = 60.0


def without_index(error: AssertionError) -> bool:
    return any(words in str(error) for words in ("No matching distribution", "Connection", "Could not fetch"))


def pip(python: str, *words: str) -> str:
    try:
        return run([python, "-m", "pip", *words], Path("/"), patience_s=15 * MINUTES)
    except AssertionError as error:
        if without_index(error):
            pytest.skip(f"the package index is not reachable: {str(error)[-300:]}")
        raise


def names(listed: str) -> set[str]:
    return {line.partition("==")[0].lower().replace("_", "-") for line in listed.splitlines()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel with kernels."""
    return sumwire_wheel(tmp_path_factory.mktemp("wheels"))


def sumwire_wheel(folder: Path, *options: str) -> Path:
    """The wheel with kernels, which is built together with the soft switch's."""
    command = [sys.executable, str(PACKAGING / "wheels.py"), *options, "--out", str(folder)]
    built = [Path(line) for line in run(command, Path("/"), patience_s=15 * MINUTES).splitlines()]
    assert [wheel.name.partition("-")[0] for wheel in built] == ["sumwire", "softswitch"]
    return built[0]


def environment(folder: Path) -> Path:
    """The folder of an empty environment's commands."""
    run([sys.executable, "-m", "venv", str(folder)], folder.parent)
    return folder / "bin"


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_and_beside_pytorch(extra: str, wheel: Path, tmp_path: Path) -> None:
    commands = environment(tmp_path / "environment")
    python, asked = str(commands / "python"), f"{wheel}[{extra}]" if extra else str(wheel)
    pip(python, "install", "--quiet", asked)
    pip(python, "check")
    installed = names(pip(python, "list", "--format=freeze"))
    brings, lacks, works = EXTRAS[extra]
    assert brings in installed and lacks not in installed
    run([str(commands / works[0]), *works[1:]], tmp_path)
    # What pip would do: nothing that is there has to go.
    report = json.loads(pip(python, "install", "--dry-run", "--quiet", "--report", "-", asked, "torch>=2.6"))
    added = {entry["metadata"]["name"].lower() for entry in report["install"]}
    assert "torch" in added and added & installed <= BROUGHT_BY_VENV


@pytest.mark.parametrize("protobuf", ["3.20.*", "4.*", "5.*", "6.*", "7.*"])
def test_controller_and_switch_beside_a_protobuf(protobuf: str, wheel: Path, tmp_path: Path) -> None:
    """The program is loaded, tables are written and read."""
    commands = environment(tmp_path / "environment")
    python = str(commands / "python")
    pip(python, "install", "--quiet", f"{wheel}[controller,switch]", f"protobuf=={protobuf}")
    pip(python, "check")
    assert "jobs: ['" in run([python, "-P", "-c", APPLIED], tmp_path)


@pytest.mark.parametrize("neighbours", [("tensorboard", "onnx"), ("transformers", "ray")])
def test_controller_and_switch_beside_others(neighbours: tuple[str, ...], wheel: Path, tmp_path: Path) -> None:
    """The newest of what people have beside them."""
    python = str(environment(tmp_path / "environment") / "python")
    asked = f"{wheel}[controller,switch]"
    report = json.loads(pip(python, "install", "--dry-run", "--quiet", "--report", "-", asked, *neighbours))
    assert {entry["metadata"]["name"].lower() for entry in report["install"]} >= {"grpcio", "p4runtime", *neighbours}


def test_ray_trains(wheel: Path, tmp_path: Path) -> None:
    """A TorchTrainer of Ray with the three lines, in an environment with the extra `host` and no more of Sumwire."""
    python = str(environment(tmp_path / "environment") / "python")
    pip(python, "install", "--quiet", f"{wheel}[host]", "ray[train]")
    (tmp_path / "train.py").write_text(TRAINED_BY_RAY)
    said = run([python, "-P", "train.py"], tmp_path, patience_s=5 * MINUTES)
    gradients = [float(word) for word in re.findall(r"gradient: (\S+)", said)]
    assert gradients == [pytest.approx(0.5, rel=0.05)] * len(gradients) and gradients
    assert "Logging error" not in said and "error=None" in said


def test_the_soft_switch_alone(tmp_path: Path) -> None:
    """In an empty environment, with what its wheel names: nothing of Sumwire."""
    wheel, commands = build_switch_wheel(tmp_path), environment(tmp_path / "environment")
    pip(str(commands / "python"), "install", "--quiet", str(wheel))
    pip(str(commands / "python"), "check")
    installed = names(pip(str(commands / "python"), "list", "--format=freeze"))
    assert "grpcio" in installed and installed.isdisjoint({"sumwire", "numpy"})
    for name in ("softswitch", "simple_switch", "simple_switch_grpc"):
        run([str(commands / name), "--version"], tmp_path)


@pytest.mark.root
def test_a_ptf_test_as_the_page_has_it(tmp_path: Path) -> None:
    """PTF from the package index, its ports and the switch's at the ends of cables."""
    commands = environment(tmp_path / "environment")
    pip(str(commands / "python"), "install", "--quiet", "ptf")
    (block,) = [each for each in pages.blocks("py") if each.path.name == "softswitch.md" and "ptf" in each.text]
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "sums.py").write_text(block.text)
    switch = SoftSwitch((ROOT / "examples" / "p4" / "sum.json").read_text())
    for port in (1, 2, 3, 4):
        call = ActionCall("MyIngress.host", (1 << port - 1, 0b1111, 1))
        switch.insert("MyIngress.hosts", Entry((Exact(port),), call))
    switch.set_group(1, [Replica(port, 0) for port in (1, 2, 3, 4)])
    with veth_pairs(4) as cables, switch.port_runner(cables):
        ports = [word for port, name in cables.items() for word in ("-i", f"{port}@{name}p")]
        # It tells the outcome of each test on stderr.
        told_on_stdout = ["sh", "-c", '"$@" 2>&1', "sh"]
        said = run([*told_on_stdout, str(commands / "ptf"), "--test-dir", "tests", *ports], tmp_path)
    assert "sums.SumOfFour ... ok" in said


def test_the_sdist_installs_alone(tmp_path: Path) -> None:
    """It has the C sources and the compiled P4 program, so that the packages work without a checkout."""
    backend = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run([sys.executable, "-P", "-c", backend, str(tmp_path)], ROOT)
    [sdist] = tmp_path.glob("sumwire-*.tar.gz")
    commands = environment(tmp_path / "environment")
    pip(str(commands / "python"), "install", "--quiet", str(sdist))
    run([str(commands / "sumwire-aggregator"), "--version"], tmp_path)
    run(
        [str(commands / "python"), "-P", "-c", "from sumwire_protocol import program; program.JSON.read_bytes()"],
        tmp_path,
    )


def test_the_host_library_brings_nothing_of_the_controller(wheel: Path, tmp_path: Path) -> None:
    python = str(environment(tmp_path / "environment") / "python")
    report = json.loads(pip(python, "install", "--dry-run", "--quiet", "--report", "-", f"{wheel}[host]"))
    added = {entry["metadata"]["name"].lower() for entry in report["install"]}
    assert {"torch", "numpy", "sumwire"} <= added
    assert added.isdisjoint({"protobuf", "grpcio", "p4runtime", "p4runtime-shell", "pyyaml"})


def kernels_of(commands: Path, folder: Path) -> str:
    """What a process without a compiler says."""
    words = ["env", "CC=/nowhere", f"NATIVELIB_CACHE={folder / 'cache'}"]
    return run([*words, str(commands / "python"), "-c", KERNELS], folder)


def test_kernels_come_compiled(compiled: Path, tmp_path: Path) -> None:
    """No compiler, no warning. With a byte changed, a library is not loaded."""
    assert re.search(r"-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl$", compiled.name)
    commands = environment(tmp_path / "environment")
    pip(str(commands / "python"), "install", "--quiet", str(compiled))
    good = "".join(f"{name} True\n" for name in COMPILED)
    assert kernels_of(commands, tmp_path) == good
    libraries = [*(tmp_path / "environment").rglob("prebuilt/*/sumwire-wire-*.so")]
    assert libraries
    for library in libraries:
        library.write_bytes(library.read_bytes() + b"x")
    changed = kernels_of(commands, tmp_path)
    assert "wire.messages False" in changed and "transport.steady True" in changed and "no C compiler" in changed


def kernels_in(wheel: Path) -> dict[str, bytes]:
    """The content of each compiled kernel, by its name without the checksum."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".so")]
        return {Path(name).name.rpartition("-")[0]: archive.read(name) for name in names}


def test_kernels_for_arm(compiled: Path, tmp_path: Path) -> None:
    """By a cross compiler, as many as for this machine. They are not run."""
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("aarch64-linux-gnu-gcc is not on PATH")
    built = sumwire_wheel(tmp_path, "--machine", "aarch64", "--cc", compiler)
    assert built.name.endswith("_aarch64.whl")
    kernels = kernels_in(built)
    assert kernels.keys() == kernels_in(compiled).keys()
    assert {content[18:20] for content in kernels.values()} == {ELF_AARCH64}


def test_the_unit_of_systemd(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not on PATH")
    text = (PACKAGING / "systemd" / "sumwire-aggregator@.service").read_text()
    # The program is not installed here.
    unit = tmp_path / "sumwire-aggregator@digits.service"
    unit.write_text(text.replace("/opt/sumwire/bin/sumwire-aggregator", "/bin/true"))
    verified = subprocess.run([analyze, "verify", str(unit)], check=False, capture_output=True, text=True)
    assert verified.returncode == 0 and not verified.stderr, verified.stderr
    told = run([analyze, "security", "--offline=true", str(unit)], tmp_path)
    level = re.search(r"exposure level.*: ([\d.]+)", told)
    assert level and float(level[1]) <= EXPOSURE_MOST, told


@pytest.mark.root
@pytest.mark.parametrize("role", ["aggregator", "switch", "controller"])
def test_the_images_steps_in_a_bare_debian(role: str, compiled: Path, bare: Path, tmp_path: Path) -> None:
    """What the Containerfile runs, in a root that debootstrap has made: the role's command runs as its user."""
    folder = tmp_path / "root"
    run(["cp", "-a", str(bare), str(folder)], tmp_path, patience_s=5 * MINUTES)
    shutil.copy(PACKAGING / "containers" / "install.sh", folder)
    shutil.copy(compiled, folder)
    # With /proc, as in a container: kernels are loaded by it.
    within = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--root={folder}", "--mount-proc"]
    variables = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(("PIP_", "http", "HTTP"))]
    run([*within, "env", *variables, "sh", "/install.sh", role, f"/{compiled.name}"], tmp_path, patience_s=20 * MINUTES)
    as_user = [*within, "setpriv", "--reuid=sumwire", "--clear-groups"]
    told = run([*as_user, f"/opt/sumwire/bin/{COMMANDS[role]}", "--version"], tmp_path)
    assert told.startswith(COMMANDS[role])
    if role != "switch":
        # The compiled kernels are used: there is no compiler.
        library = "import sumwire.wire.messages as kernels; print(kernels.NATIVE.kernels() is not None)"
        environment_ = ["env", "NATIVELIB_CACHE=/var/cache/sumwire"]
        assert run([*as_user, *environment_, "/opt/sumwire/bin/python", "-c", library], tmp_path) == "True\n"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare Debian, with this machine's resolver, certificates and pip settings."""
    if shutil.which("debootstrap") is None:
        pytest.skip("debootstrap is not on PATH")
    folder = tmp_path_factory.mktemp("debian") / "root"
    try:
        command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(folder)]
        run(command, Path("/"), 20 * MINUTES)
    except AssertionError as error:
        pytest.skip(f"debootstrap could not make a root: {str(error)[-300:]}")
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt", "etc/pip.conf"):
        if Path("/", name).exists():
            shutil.copy(Path("/", name), folder / name)
    return folder
