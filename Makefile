# Two commands on a fresh machine: `make demo` and `make test`. Both set up what they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
NATIVE := $(VENV)/.native

.DEFAULT_GOAL := help
.PHONY: help setup native demo test lint types imports check sim bench-latency bench-small clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(NATIVE) ## a virtual environment with everything in it

$(STAMP): pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "elfmesh needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo "Setting up $(VENV) (about a minute, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	@touch $@

$(NATIVE): $(STAMP) $(wildcard elfmesh/cbt/kernel/csrc/*.[ch] elfmesh/agent/parsers/csrc/*.[ch])
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

native: $(STAMP) ## build the C modules in place again, with what the compiler says
	@$(BIN)/python setup.py build_ext --inplace
	@touch $(NATIVE)

demo: $(NATIVE) ## run the main job: 8 agents, live top-10, one killed, checked, a Spark DataFrame
	@$(BIN)/elf demo

test: $(NATIVE) ## all tests
	@$(BIN)/python -m pytest -q

lint: $(NATIVE) ## style
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: $(NATIVE) ## types, strict
	@$(BIN)/mypy

imports: $(NATIVE) ## who may import whom
	@$(BIN)/lint-imports

check: test lint types imports ## everything .ci/run does

sim: $(NATIVE) ## 1,000 simulated agents and 100 jobs (minutes)
	ELF_SIM_AGENTS=1000 ELF_SIM_JOBS=100 $(BIN)/python -m pytest -q tests/sim --timeout 3600

clean: ## remove what was built
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
