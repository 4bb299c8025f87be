# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0

# Options of `make run`, for example: make run WORKERS=8 BW=20 SWITCH=bmv2
WORKERS ?= 4
# Mbit/s of a link.
BW ?= 100
# soft, bmv2, auto: bmv2 where it is on PATH; or aggregator: the software aggregator on a server
SWITCH ?= soft
# Of the soft switch: native (C, needs clang 16 or later), python, or auto: native where there is a compiler
ENGINE ?= auto
# One of `python -m sumwire_lab run --help`, as thc, dlcp, acp@group, powersgd, marsit; several with commas, or all
SYSTEM ?= thc
# digits, digits-cnn, text
TASK ?= digits
# What SYSTEM is compared with: gloo, torch's hooks (fp16, bf16, powersgd1, powersgd4), topk, terngrad, naive4
BASELINES ?= gloo,fp16,powersgd4
# star, leaf-spine, leaf-spine2 (two spines), three-level
TOPOLOGY ?= star
# More, for example: --loss 0.01, --gray 2:0.01, --background 0.5, --incast 64, --slow 3:3, --trunk-bw 50; with SYSTEM=dlcp
# also --quorum 3, --loss-bound 0.03 (docs/lab.md)
RUN_FLAGS ?=
# Options of `make bench`: QUICK=1 for minutes instead of hours; names of suites with commas, or all
QUICK ?=
SUITES ?= all
# Options of `make bench-allreduce`: values per tensor, Mbit/s per link.
SIZES ?= 100k,1M
# Options of `make bench-where`, for example: --resume, --switches soft --bw 100,unlimited; QUICK=1 for minutes
WHERE_FLAGS ?=
# Option of `make bench-switch`: thc, sum32, sign, vote, max32, several with commas, or all
OP ?= thc
# Options of `make verify-life`, for example: --rows switch,link --switches soft --seeds 5 --parallel 8
LIFE_FLAGS ?=
# Options of `make verify-trust`, for example: --rows attacks,forged; QUICK=1 for minutes
TRUST_FLAGS ?=
# Options of `make verify-papers`, for example: --rows thc,marsit-matching; QUICK=1 for minutes
PAPERS_FLAGS ?=
# Options of `make verify-evidence`, for example: --rows headline-digits-100; QUICK=1 for one seed
EVIDENCE_FLAGS ?=
# Options of `make verify-see`, for example: --rows tshark,doctor; QUICK=1 for minutes
SEE_FLAGS ?=
# Options of `make verify-ways`, for example: --rows start,start-wheel; QUICK=1 for minutes
WAYS_FLAGS ?=
# Options of `make verify-scale`, for example: --rows engine,slots; QUICK=1 for a minute
SCALE_FLAGS ?=
# A checkout of p4c, whose samples `make verify-faithful` runs.
P4C ?=
# Options of `make verify-faithful`, for example: --rows p4runtime-finsy; QUICK=1 for minutes
FAITHFUL_FLAGS ?=
# Options of `make fuzz`, which needs clang's sanitizers (Debian: libclang-rt-16-dev); for trains gcc's do: CC=gcc.
FUZZ_PACKETS ?= 10000000
FUZZ_TRAINS ?= 10000000
# Of each target of `make fuzz-c`, which needs a clang with libFuzzer (Debian: clang-14, libclang-rt-14-dev, llvm-14).
FUZZ_SECONDS ?= 1800
FUZZ_PROGRAMS ?= 10000
FUZZ_FILES ?= 20000
FUZZ_SEED ?= 1
# Options of `make fuzz-p4runtime`: updates that are sent; FUZZ_SWITCH=bmv2 lists what bmv2 does otherwise.
FUZZ_WRITES ?= 20000
FUZZ_SWITCH ?= soft
# Options of `make simulate`: how many schedules, and more, for example: --first 5000 --keep-going
SEEDS ?= 1000
SIMULATE_FLAGS ?=
# Options of `make models`: names of models with commas; default: all
MODELS ?=
# Of `make pages`: a folder with verify-TOPIC.json, whose rows go into the records first.
TAKE ?=
# Options of `make test`, for example: make test PYTEST_FLAGS="--require-bmv2 -k slots"
PYTEST_FLAGS ?=
# Processes of tests: two more than cores, because tests also wait for timers, links and each other. With one more, two
# cores had nothing to do for a quarter of the time.
TEST_JOBS ?= $(shell echo $$(($$(nproc) + 2)))

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
# Compiled code, see docs/softswitch.md; the compiler itself is $CC where the environment has one. It is kept in the
# checkout if that is this user's own: code that others could have written is not loaded.
ifneq ($(shell find . -maxdepth 0 -uid $$(id -u) ! -perm /022),)
export NATIVELIB_CACHE := $(CURDIR)/.cache/native
endif
# Network namespaces and raw sockets need root, and the programs the same variables there. Root has its own cache.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=CC,SUMWIRE_NATIVE,SUMWIRE_LOG_FORMAT)

.PHONY: release pages wheels help setup run test lint format docs p4 p4-tna bench bench-codec bench-allreduce bench-where bench-switch \
  verify-thc verify-sign verify-speed verify-acp verify-dlcp verify-life verify-trust verify-papers verify-evidence verify-see verify-ways \
  verify-faithful verify-scale simulate fuzz fuzz-trains fuzz-c races \
  fuzz-programs fuzz-p4runtime fuzz-files coverage-p4 models clean
.DEFAULT_GOAL := help

help:
	@echo "make run              train over gloo and through the switch, compare"
	@echo "                      (TASK=$(TASK) WORKERS=$(WORKERS) BW=$(BW) SYSTEM=$(SYSTEM) TOPOLOGY=$(TOPOLOGY)"
	@echo "                      SWITCH=$(SWITCH) ENGINE=$(ENGINE))"
	@echo "make test             all tests (TEST_JOBS=$(TEST_JOBS) side by side; PYTEST_FLAGS=...)"
	@echo "make lint             ruff, codespell and mypy"
	@echo "make pages            measurements and README's numbers from records (TAKE=results: after a verify command)"
	@echo "make docs             the pages and the API reference as a site, in site/"
	@echo "make release          sdist and wheel in dist/, each extra tried in an empty environment"
	@echo "make wheels           the wheel for this machine, with compiled kernels, in dist/"
	@echo "make p4               recompile the P4 program (needs p4c)"
	@echo "make p4-tna           recompile the program for Tofino 1, and its report (needs p4c's Tofino backend)"
	@echo "make bench            all systems compared, on one page (QUICK=1 for minutes; SUITES=$(SUITES))"
	@echo "make bench-codec      time of THC encode and decode"
	@echo "make bench-allreduce  all-reduce, Sumwire against gloo (SIZES=$(SIZES) BW=$(BW))"
	@echo "make bench-where      at which sizes and link rates Sumwire is faster than gloo (QUICK=1; WHERE_FLAGS=...)"
	@echo "make bench-switch     packets per second into each engine of the soft switch, and into bmv2 (OP=$(OP))"
	@echo "make verify-thc       every number that THC promises"
	@echo "make verify-sign      every number that sign bits and trees promise"
	@echo "make verify-speed     every number that is promised of speed, against gloo with its offloads"
	@echo "make verify-acp       every number that ACP-SGD, the baselines and the software aggregator promise"
	@echo "make verify-dlcp      every number that packets with tags, bounded loss, spraying and trimming promise"
	@echo "make verify-life      runs that are killed, stopped, cut off and restarted (LIFE_FLAGS=...)"
	@echo "make verify-trust     attacks on jobs, switches and files, schedules, models (QUICK=1; TRUST_FLAGS=...)"
	@echo "make verify-papers    what readers of the papers expect, paper by paper (QUICK=1; PAPERS_FLAGS=...)"
	@echo "make verify-evidence  the strongest alternatives (QUICK=1; EVIDENCE_FLAGS=...)"
	@echo "make verify-see       what shows packets, and the doctor, with their targets (QUICK=1; SEE_FLAGS=...)"
	@echo "make verify-ways      the ways in: from a wheel to a training (QUICK=1; WAYS_FLAGS=...)"
	@echo "make verify-scale     the simulator of large networks: right, and how fast (QUICK=1; SCALE_FLAGS=...)"
	@echo "make verify-faithful  P4 programs and P4Runtime clients of others (QUICK=1; FAITHFUL_FLAGS=...)"
	@echo "make simulate         whole jobs in virtual time, a schedule of faults for each seed (SEEDS=$(SEEDS))"
	@echo "make fuzz             mutated packets into the native engine under sanitizers (FUZZ_PACKETS=$(FUZZ_PACKETS)"
	@echo "                      FUZZ_SEED=$(FUZZ_SEED); needs Debian's libclang-rt-16-dev), and fuzz-trains"
	@echo "make fuzz-trains      mutated trains into cut and join under sanitizers (FUZZ_TRAINS=$(FUZZ_TRAINS))"
	@echo "make fuzz-c           libFuzzer into the C of aggregator and hosts (FUZZ_SECONDS=$(FUZZ_SECONDS) of each target)"
	@echo "make races            threaded tests under ThreadSanitizer, and races that it must find"
	@echo "make fuzz-programs    mutated P4 programs into both engines (FUZZ_PROGRAMS=$(FUZZ_PROGRAMS) FUZZ_SEED=$(FUZZ_SEED))"
	@echo "make fuzz-p4runtime   fuzzed P4Runtime requests of four clients against a model of the switch's state"
	@echo "                      (FUZZ_WRITES=$(FUZZ_WRITES) FUZZ_SEED=$(FUZZ_SEED) FUZZ_SWITCH=$(FUZZ_SWITCH) ENGINE=$(ENGINE))"
	@echo "make fuzz-files       mutated configurations, topologies, job files, tuning tables (FUZZ_FILES=$(FUZZ_FILES))"
	@echo "make coverage-p4      what of the P4 program no packet test reaches"
	@echo "make models           search the protocol's models with Spin (needs Debian's spin; MODELS=$(MODELS))"
	@echo "make clean            remove the environment, caches and results"

setup: $(READY)

$(READY): pyproject.toml constraints.txt scripts/setup-system.sh
	./scripts/setup-system.sh
	@# An environment that is there keeps its Python: made again by another one it would mix the two.
	[ -x $(PYTHON) ] || python3 -m venv --clear $(VENV)
	@echo "sumwire: installing Python packages into $(VENV) (a few minutes the first time)"
	$(PYTHON) -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@# Mininet is Debian's: this one package is borrowed from the system, not all of them.
	ln -sfn /usr/lib/python3/dist-packages/mininet \
	  "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/mininet"
	touch $@

run: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab run --workers $(WORKERS) --bw $(BW) --switch $(SWITCH) --engine $(ENGINE) \
	  --task $(TASK) --systems $(BASELINES),$(SYSTEM) --topology $(TOPOLOGY) $(RUN_FLAGS)

# Hundreds of processes import the same modules: they keep the bytecode, also where a container says not to.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)
	$(SUDO) $(PYTHON) -m pytest -n $(TEST_JOBS) --dist worksteal $(PYTEST_FLAGS)

# What people write; .cache and results are machines' own.
SPELLED := README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md Makefile mkdocs.yml pyproject.toml common controller docs examples host \
  mininet models native p4src packaging protocol records scripts switch tests

lint: $(READY)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m codespell_lib $(SPELLED)
	$(PYTHON) -m mypy

format: $(READY)
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

pages: $(READY)
	$(PYTHON) -P records/pages.py $(if $(TAKE),--take $(TAKE))

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

release: $(READY)
	$(PYTHON) -P packaging/release.py --out dist

wheels: $(READY)
	$(PYTHON) packaging/wheels.py --out dist

p4: $(READY)
	$(PYTHON) p4src/tools/build.py

p4-tna: $(READY)
	$(PYTHON) p4src/tools/tna.py

bench: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab bench page --suites $(SUITES) --switch $(SWITCH) --engine $(ENGINE) \
	  $(if $(filter-out 0,$(QUICK)),--quick)

bench-codec: $(READY)
	$(PYTHON) -m sumwire_lab bench codec --json results/bench-codec.json

bench-allreduce: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab bench allreduce --sizes $(SIZES) --bw $(BW) --workers $(WORKERS) \
	  --switch $(SWITCH) --engine $(ENGINE)

bench-where: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab bench where --workers $(WORKERS) $(if $(filter-out 0,$(QUICK)),--quick) $(WHERE_FLAGS)

bench-switch: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab bench switch --ops $(OP)

verify-thc: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify thc

verify-sign: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify sign

verify-speed: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify speed

verify-acp: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify acp

verify-dlcp: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify dlcp

verify-life: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify life $(LIFE_FLAGS)

verify-trust: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify trust $(if $(filter-out 0,$(QUICK)),--quick) $(TRUST_FLAGS)

verify-papers: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify papers $(if $(filter-out 0,$(QUICK)),--quick) $(PAPERS_FLAGS)

verify-evidence: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify evidence $(if $(filter-out 0,$(QUICK)),--quick) $(EVIDENCE_FLAGS)

verify-see: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify see $(if $(filter-out 0,$(QUICK)),--quick) $(SEE_FLAGS)

verify-ways: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify ways $(if $(filter-out 0,$(QUICK)),--quick) $(WAYS_FLAGS)

verify-scale: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify scale $(if $(filter-out 0,$(QUICK)),--quick) $(SCALE_FLAGS)

verify-faithful: $(READY)
	$(SUDO) env P4C=$(P4C) $(PYTHON) -m sumwire_lab verify faithful $(if $(filter-out 0,$(QUICK)),--quick) $(FAITHFUL_FLAGS)

simulate: $(READY)
	PYTHONPATH=tests $(PYTHON) -m simulate --seeds $(SEEDS) --json results/simulate.json $(SIMULATE_FLAGS)

fuzz fuzz-trains fuzz-c fuzz-programs fuzz-p4runtime coverage-p4: export PYTHONPATH := tests
fuzz: fuzz-trains
	mkdir -p results
	$(PYTHON) tests/differential/star_state.py results/fuzz-state.json
	$(PYTHON) -m fuzz.packets p4src/build/sumwire.json --config results/fuzz-state.json \
	  --packets $(FUZZ_PACKETS) --seed $(FUZZ_SEED)

fuzz-trains: $(READY)
	$(PYTHON) -m fuzz.trains --trains $(FUZZ_TRAINS) --seed $(FUZZ_SEED)

fuzz-c: $(READY)
	$(PYTHON) -m fuzz.libfuzzer --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

races: $(READY)
	$(SUDO) env PYTHONPATH=tests $(PYTHON) -m fuzz.races

FUZZED := p4src/build/sumwire.json $(filter-out %/sources.json,$(wildcard tests/helpers/*/programs/*.json))

fuzz-programs: $(READY)
	$(PYTHON) -m fuzz.programs $(FUZZED) --mutations $(FUZZ_PROGRAMS) --seed $(FUZZ_SEED)

fuzz-files: export PYTHONPATH := tests
fuzz-files: $(READY)
	$(PYTHON) -m helpers.fuzz_files --mutations $(FUZZ_FILES) --seed $(FUZZ_SEED)

# What of the P4 program the packet tests reach in the native engine.
coverage-p4: $(READY)
	rm -rf results/p4-coverage && mkdir -p results/p4-coverage
	$(PYTHON) -m pytest -q -n $(TEST_JOBS) tests/packet -k soft-engines --p4-coverage $(CURDIR)/results/p4-coverage $(PYTEST_FLAGS)
	$(PYTHON) -m fuzz.coverage results/p4-coverage

P4RUNTIME := tests/helpers/p4runtime/programs/tables

fuzz-p4runtime: $(READY)
	$(PYTHON) -m fuzz.p4runtime $(P4RUNTIME).p4info.txtpb $(P4RUNTIME).json --writes $(FUZZ_WRITES) \
	  --seed $(FUZZ_SEED) --switch $(FUZZ_SWITCH) --engine $(ENGINE) $(if $(filter soft,$(FUZZ_SWITCH)),--load-test)

models: $(READY)
	$(PYTHON) -m sumwire_lab models --only "$(MODELS)" --json results/models.json

clean:
	$(SUDO) rm -rf $(VENV) .cache results site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf ./*.egg-info build
