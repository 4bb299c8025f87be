# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0

# Options of `make run`, for example: make run WORKERS=8 BW=20 SWITCH=bmv2
WORKERS ?= 4
BW ?= 10
SWITCH ?= auto
# thc, marsit, marsit100, vote, ef-sign, ssdm, cascade, several with commas, or all
SYSTEM ?= thc
# star, leaf-spine, leaf-spine2 (two spines), three-level
TOPOLOGY ?= star
RUN_FLAGS ?=
# Options of `make bench-allreduce`: values per tensor, Mbit/s per link.
SIZES ?= 100k,1M
# Options of `make test`, for example: make test PYTEST_FLAGS="--require-bmv2 -k slots"
PYTEST_FLAGS ?=

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
# Network namespaces and raw sockets need root.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help setup run test lint format p4 bench-codec bench-allreduce verify-thc verify-sign clean
.DEFAULT_GOAL := help

help:
	@echo "make run              train over gloo and through the switch, compare"
	@echo "                      (WORKERS=$(WORKERS) BW=$(BW) SWITCH=$(SWITCH) SYSTEM=$(SYSTEM) TOPOLOGY=$(TOPOLOGY))"
	@echo "make test             all tests (PYTEST_FLAGS=...)"
	@echo "make lint             ruff and mypy"
	@echo "make p4               recompile the P4 program (needs p4c)"
	@echo "make bench-codec      time of THC encode and decode"
	@echo "make bench-allreduce  all-reduce, Sumwire against gloo (SIZES=$(SIZES) BW=$(BW))"
	@echo "make verify-thc       every number that THC promises"
	@echo "make verify-sign      every number that sign bits and trees promise"
	@echo "make clean            remove the environment, caches and results"

setup: $(READY)

$(READY): pyproject.toml constraints.txt scripts/setup-system.sh
	./scripts/setup-system.sh
	python3 -m venv $(VENV)
	@echo "sumwire: installing Python packages into $(VENV) (a few minutes the first time)"
	$(PYTHON) -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@# Mininet is Debian's: this one package is borrowed from the system, not all of them.
	ln -sfn /usr/lib/python3/dist-packages/mininet \
	  "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/mininet"
	touch $@

run: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab run --workers $(WORKERS) --bw $(BW) --switch $(SWITCH) \
	  --systems gloo,$(SYSTEM) --topology $(TOPOLOGY) $(RUN_FLAGS)

test: $(READY)
	$(SUDO) $(PYTHON) -m pytest $(PYTEST_FLAGS)

lint: $(READY)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

format: $(READY)
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

p4: $(READY)
	$(PYTHON) p4src/tools/build.py

bench-codec: $(READY)
	$(PYTHON) -m sumwire.bench_codec --json results/bench-codec.json

bench-allreduce: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab bench-allreduce --sizes $(SIZES) --bw $(BW) --workers $(WORKERS) --switch $(SWITCH)

verify-thc: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify-thc

verify-sign: $(READY)
	$(SUDO) $(PYTHON) -m sumwire_lab verify-sign

clean:
	$(SUDO) rm -rf $(VENV) results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf ./*.egg-info
